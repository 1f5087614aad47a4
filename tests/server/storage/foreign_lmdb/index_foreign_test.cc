// The content hash of environments of other programs: that of their packed
// form, and never one of other files.

#include "server/storage/foreign_lmdb/index_foreign.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/storage/foreign_lmdb/content_record.h"
#include "server/storage/open.h"
#include "tests/server/storage/foreign_lmdb/environment_testing.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

class IndexForeignTest : public ::testing::Test {
 protected:
  IndexForeignTest() {
    options_.cache_dir = folder_ / "cache";
    Samples samples = ImageSamples(700);
    for (std::vector<std::string>& sample : samples) {
      sample[0] = "\xFF\xD8\xFF" + sample[0];
    }
    const DatasetInfo info = ImageDataset(700);
    EXPECT_TRUE(Pack("lmdb:" + (folder_ / "packed.lmdb"), info, samples).ok());
    WriteFile(folder_ / "classes",
              absl::StrJoin(info.schema().fields(1).class_names(), "\n"));
    // In two environments.
    std::filesystem::create_directory(folder_ / "d");
    for (int part = 0; part < 2; ++part) {
      Entries entries;
      for (int i = 350 * part; i < 350 * (part + 1); ++i) {
        int64_t label = 0;
        std::memcpy(&label, samples[i][1].data(), sizeof(label));
        entries.emplace_back(absl::StrCat(10000 + i),
                             DatumBytes({.channels = 3,
                                         .height = 8,
                                         .width = 8,
                                         .data = samples[i][0],
                                         .label = static_cast<int>(label),
                                         .encoded = true}));
      }
      WriteEnvironment(folder_ / absl::StrCat("d/", part, ".mdb"), entries);
    }
  }
  std::string Rest() const {
    return absl::StrCat(folder_ / "d", "?classes=", folder_ / "classes");
  }
  DatasetInfo InfoOf(const std::string& rest) const {
    const auto source = OpenRecordSource("lmdb:" + rest, options_);
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? (*source)->info() : DatasetInfo();
  }
  IndexedForeign Index(uint32_t threads) const {
    const auto indexed = IndexForeignLmdb(Rest(), options_, threads, {});
    EXPECT_TRUE(indexed.ok()) << indexed.status();
    return indexed.ok() ? **indexed : IndexedForeign();
  }

  TempFolder folder_;
  OpenSourceOptions options_;
};

TEST_F(IndexForeignTest, TheFingerprintIsThatOfThePackedDataset) {
  const std::string packed = InfoOf(folder_ / "packed.lmdb").fingerprint();
  EXPECT_NE(InfoOf(Rest()).fingerprint(), packed);
  for (const uint32_t threads : {1, 4}) {
    const IndexedForeign indexed = Index(threads);
    EXPECT_EQ(indexed.info.fingerprint(), packed);
    EXPECT_TRUE(std::filesystem::exists(indexed.file));
    const DatasetInfo info = InfoOf(Rest());
    EXPECT_EQ(info.fingerprint(), packed);
    EXPECT_EQ(info.shards(1).content_sum().size(), 32u);
  }
  // Other options mean other samples.
  EXPECT_NE(InfoOf(folder_ / "d?label_offset=1").fingerprint(), packed);
}

TEST_F(IndexForeignTest, AFileThatHasChangedHasNoContentHash) {
  const std::string content = Index(2).info.fingerprint();
  const std::string file = folder_ / "d/1.mdb";
  ASSERT_EQ(InfoOf(Rest()).fingerprint(), content);
  // A byte of a value, with the times of before.
  const auto time = std::filesystem::last_write_time(file);
  const int fd = open(file.c_str(), O_WRONLY);
  ASSERT_EQ(pwrite(fd, "?", 1, 40'000), 1);
  close(fd);
  std::filesystem::last_write_time(file, time);
  EXPECT_NE(InfoOf(Rest()).fingerprint(), content);
}

TEST_F(IndexForeignTest, ADamagedRecordIsNotUsed) {
  const IndexedForeign indexed = Index(2);
  const std::string bytes = ReadFile(indexed.file);
  ASSERT_TRUE(DecodeContentRecord(bytes).ok());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 1;
    EXPECT_TRUE(absl::IsDataLoss(DecodeContentRecord(damaged).status())) << i;
    EXPECT_TRUE(
        absl::IsDataLoss(DecodeContentRecord(bytes.substr(0, i)).status()));
  }
  WriteFile(indexed.file, bytes.substr(0, 20));
  EXPECT_NE(InfoOf(Rest()).fingerprint(), indexed.info.fingerprint());
}

TEST_F(IndexForeignTest, ItCanBeStopped) {
  const auto stopped = IndexForeignLmdb(
      Rest(), options_, 2, [](int64_t done, int64_t all, int64_t bytes) {
        EXPECT_EQ(all, 700);
        EXPECT_EQ(bytes, 0);
        return done == 0;
      });
  EXPECT_TRUE(absl::IsCancelled(stopped.status()) || stopped.ok())
      << stopped.status();
  const auto at_once = IndexForeignLmdb(
      Rest(), options_, 2, [](int64_t, int64_t, int64_t) { return false; });
  EXPECT_TRUE(absl::IsCancelled(at_once.status()));
}

TEST_F(IndexForeignTest, APackedDatasetIsNotForeign) {
  const auto none = IndexForeignLmdb(folder_ / "packed.lmdb", options_, 2, {});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->has_value());
}

}  // namespace
}  // namespace millrace::storage
