// Tar shards that are served as they are give the batches of the same samples
// packed, byte by byte, on any number of threads and with little memory; a
// shard that is replaced in the middle of an epoch is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_budget.h"
#include "proto/error_detail.h"
#include "server/data_tool/commands.h"
#include "server/pipeline/engine.h"
#include "server/storage/open.h"
#include "tests/server/pipeline/engine_fixture.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/tar/tar_bytes.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kImages = 60;
constexpr int kShards = 4;

class TarBatchesTest : public ::testing::Test {
 protected:
  TarBatchesTest() {
    storage::Samples samples;
    std::string shards[kShards];
    for (int i = 0; i < kImages; ++i) {
      JpegKind kind;
      kind.width = 40 + i % 7 * 9;
      kind.height = 90 - i % 5 * 11;
      kind.progressive = i % 6 == 0;
      const std::vector<uint8_t> jpeg = WriteJpeg(kind, i);
      std::string image(jpeg.begin(), jpeg.end());
      const std::string key = absl::StrFormat("%05d", i);
      absl::StrAppend(
          &shards[i * kShards / kImages],
          storage::TarMemberBytes(key + ".jpg", image),
          storage::TarMemberBytes(key + ".cls", absl::StrCat(i % 3, "\n")));
      samples.push_back(
          {std::move(image), storage::Scalar<int64_t>(int64_t{i % 3})});
    }
    for (int s = 0; s < kShards; ++s) {
      storage::WriteFile(Shard(s), shards[s] + storage::TarEnd());
    }
    // Its three classes have names.
    const DatasetInfo info = storage::ImageDataset(kImages);
    std::string names;
    for (const std::string& name : info.schema().fields(1).class_names()) {
      absl::StrAppend(&names, name, "\n");
    }
    storage::WriteFile(folder_ / "names", names);
    EXPECT_TRUE(storage::Pack(PackedUri(), info, samples).ok());
  }

  std::string Shard(int s) const {
    return folder_ / absl::StrFormat("photos-%03d.tar", s);
  }
  std::string PackedUri() const {
    return absl::StrCat("lmdb:", folder_ / "packed.lmdb");
  }
  std::string TarUri() const {
    return absl::StrCat("tar:", folder_ / "photos-{000..003}.tar",
                        "?classes=", folder_ / "names");
  }

  std::shared_ptr<const storage::RecordSource> OpenSource(
      const std::string& uri) {
    storage::OpenSourceOptions options;
    options.cache_dir = folder_ / "cache";
    options.read_budget = &reads_;
    options.read_bytes = read_bytes_;
    auto source = storage::OpenRecordSource(uri, options);
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }

  std::unique_ptr<Engine> Serve(const std::string& uri, uint32_t threads,
                                uint32_t read_threads) {
    budgets_.push_back(std::make_unique<ByteBudget>(uint64_t{256} << 20));
    auto engine = Engine::Create({.threads = threads,
                                  .read_threads = read_threads,
                                  .budget = budgets_.back().get()},
                                 {{"photos", OpenSource(uri)}});
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  static std::string Text(const std::string& preset) {
    return absl::StrCat("sources { dataset: 'photos' } preset: '", preset,
                        "' seed: 9 batch_size: 8 ");
  }

  static absl::Status Run(Engine& engine, const std::string& text,
                          uint64_t epoch, Arrivals* arrivals) {
    const auto pipeline = engine.Open(Spec(text));
    if (!pipeline.ok()) return pipeline.status();
    StepRange range;
    range.epoch = epoch;
    range.step_count = (*pipeline)->description().steps_per_epoch();
    const auto run = engine.Start(*pipeline, range, arrivals->callbacks());
    if (!run.ok()) return run.status();
    return arrivals->AwaitDone();
  }

  // The payloads of an epoch in the order of the steps.
  static std::string Epoch(Engine& engine, const std::string& text,
                           uint64_t epoch) {
    Arrivals arrivals;
    const absl::Status status = Run(engine, text, epoch, &arrivals);
    EXPECT_TRUE(status.ok()) << status;
    std::string all;
    for (const auto& [step, batch] : arrivals.TakeBatches()) {
      all += PayloadText(batch);
    }
    return all;
  }

  ByteBudget reads_{uint64_t{1} << 30};
  uint64_t read_bytes_ = 1 << 20;
  std::vector<std::unique_ptr<ByteBudget>> budgets_;
  storage::TempFolder folder_;
};

TEST_F(TarBatchesTest, AreThoseOfThePackedDataset) {
  const auto packed = Serve(PackedUri(), 2, 0);
  const auto alone = Serve(TarUri(), 1, 0);
  const auto read_ahead = Serve(TarUri(), 3, 16);
  // Room for the largest record and little more.
  read_bytes_ = 1;
  const auto narrow = Serve(TarUri(), 2, 8);
  for (const char* preset : {"imagenet_train", "imagenet_eval"}) {
    for (const uint64_t epoch : {0, 1}) {
      const std::string wanted = Epoch(*packed, Text(preset), epoch);
      EXPECT_GT(wanted.size(), 1 << 20);
      for (Engine* engine : {alone.get(), read_ahead.get(), narrow.get()}) {
        EXPECT_TRUE(Epoch(*engine, Text(preset), epoch) == wanted)
            << preset << ", epoch " << epoch;
      }
    }
  }
  // Names, sizes and times are no content.
  const std::string fingerprint = OpenSource(PackedUri())->info().fingerprint();
  EXPECT_NE(OpenSource(TarUri())->info().fingerprint(), fingerprint);
  ASSERT_EQ(
      data_tool::RunDataTool(
          {"index", TarUri(), "--cache_dir=" + folder_ / "cache"}, std::cerr),
      0);
  EXPECT_EQ(OpenSource(TarUri())->info().fingerprint(), fingerprint);
  EXPECT_EQ(
      data_tool::RunDataTool(
          {"verify", TarUri(), "--cache_dir=" + folder_ / "cache"}, std::cerr),
      0);
}

// By one of equal size. The others are served.
TEST_F(TarBatchesTest, AReplacedShardIsRefused) {
  const auto engine = Serve(TarUri(), 2, 4);
  EXPECT_GT(Epoch(*engine, Text("imagenet_eval"), 0).size(), 1);
  std::string bytes = storage::ReadFile(Shard(1));
  bytes[700] = static_cast<char>(bytes[700] ^ 1);
  storage::WriteFile(folder_ / "new", bytes);
  std::filesystem::last_write_time(folder_ / "new",
                                   std::filesystem::last_write_time(Shard(1)));
  // A pipeline that is open: no server must be asked again.
  const auto pipeline = engine->Open(Spec(Text("imagenet_eval")));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  std::filesystem::rename(folder_ / "new", Shard(1));
  Arrivals arrivals;
  StepRange range;
  range.step_count = (*pipeline)->description().steps_per_epoch();
  const auto run = engine->Start(*pipeline, range, arrivals.callbacks());
  ASSERT_TRUE(run.ok()) << run.status();
  const absl::Status status = arrivals.AwaitDone();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(Shard(1) + " was deleted or replaced"),
                    HasSubstr("restart the data server")));
  EXPECT_EQ(GetErrorDetail(status).shard(), "photos-001.tar");
  // The next job gets the same final error, and does not wait for another
  // server.
  Arrivals next;
  const absl::Status again = Run(*engine, Text("imagenet_eval"), 1, &next);
  EXPECT_TRUE(absl::IsDataLoss(again)) << again;
  EXPECT_EQ(GetErrorDetail(again).shard(), "photos-001.tar");
}

}  // namespace
}  // namespace millrace::pipeline
