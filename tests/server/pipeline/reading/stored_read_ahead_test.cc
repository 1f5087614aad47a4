// Reading ahead of real files: batches of Parquet and LMDB shards, and of a
// mixture of both, are those of threads that read for themselves.

#include <dirent.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/storage/open.h"
#include "tests/server/pipeline/engine_fixture.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::pipeline {
namespace {

constexpr int64_t kSamples = 90;

// Threads of this process that read ahead.
int Readers() {
  int readers = 0;
  DIR* const tasks = opendir("/proc/self/task");
  EXPECT_NE(tasks, nullptr);
  while (const dirent* const entry = readdir(tasks)) {
    const std::string name =
        absl::StrCat("/proc/self/task/", entry->d_name, "/comm");
    if (entry->d_name[0] == '.') continue;
    readers += storage::ReadFile(name).starts_with("mr-reader");
  }
  closedir(tasks);
  return readers;
}

class StoredReadAheadTest : public EngineFixture {
 protected:
  StoredReadAheadTest() {
    storage::DatasetWriter::Options shards;
    shards.shards = 3;
    storage::Samples samples = storage::ImageSamples(kSamples);
    // The stage of these tests takes no empty image.
    for (auto& fields : samples) fields[0] += "!";
    for (const std::string& scheme : storage::Schemes()) {
      const std::string uri = absl::StrCat(scheme, ":", folder_ / scheme);
      const auto packed =
          Pack(uri, storage::ImageDataset(kSamples), samples, shards);
      EXPECT_TRUE(packed.ok()) << packed.status();
      uris_[scheme] = uri;
    }
  }

  DatasetCatalog Catalog() const {
    DatasetCatalog catalog;
    for (const auto& [scheme, uri] : uris_) {
      auto source = storage::OpenRecordSource(uri, {});
      EXPECT_TRUE(source.ok()) << source.status();
      catalog[scheme] = *std::move(source);
    }
    return catalog;
  }

  // The batches of two epochs are the same with and without.
  void ExpectTheSameBytes(const std::string& sources, bool reads_ahead) {
    const std::string text =
        absl::StrCat(sources, " batch_size: 8 seed: 4 ", kImageTransforms);
    std::map<std::pair<uint64_t, uint64_t>, std::string> wanted;
    for (const uint32_t read_threads : {0u, 1u, 9u}) {
      for (const uint32_t threads : {1u, 3u}) {
        Engine::Options options;
        options.threads = threads;
        options.read_threads = read_threads;
        auto engine = Create(options, Catalog());
        for (uint64_t epoch = 0; epoch < 2; ++epoch) {
          StepRange range;
          range.epoch = epoch;
          for (const auto& [step, batch] : RunAll(*engine, text, range)) {
            const auto [it, first] =
                wanted.emplace(std::pair(epoch, step), PayloadText(batch));
            EXPECT_EQ(it->second, PayloadText(batch))
                << read_threads << " read threads, epoch " << epoch << " step "
                << step;
          }
        }
        if (reads_ahead) {
          // A thread has no name before it first runs, which on a busy machine
          // can be after the last batch.
          for (int i = 0; i < 1000 && Readers() < read_threads; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
          EXPECT_EQ(Readers(), static_cast<int>(read_threads));
        }
        EXPECT_EQ(budget_->used(), idle_use_);
      }
    }
    EXPECT_FALSE(wanted.empty());
  }

  storage::TempFolder folder_;
  std::map<std::string, std::string> uris_;
};

TEST_F(StoredReadAheadTest, Parquet) {
  if (!uris_.contains("parquet")) GTEST_SKIP() << "built without Parquet";
  ExpectTheSameBytes("sources { dataset: 'parquet' }", true);
}

// Its pages lie in memory: nobody waits, and nobody needs to.
TEST_F(StoredReadAheadTest, Lmdb) {
  ExpectTheSameBytes("sources { dataset: 'lmdb' }", false);
}

TEST_F(StoredReadAheadTest, AMixtureOfBoth) {
  if (!uris_.contains("parquet")) GTEST_SKIP() << "built without Parquet";
  ExpectTheSameBytes(
      "sources { dataset: 'lmdb' weight: 2 } "
      "sources { dataset: 'parquet' weight: 1 }",
      true);
}

}  // namespace
}  // namespace millrace::pipeline
