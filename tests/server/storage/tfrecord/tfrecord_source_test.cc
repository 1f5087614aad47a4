// TFRecord files as a dataset: index, fingerprint and reads, beside the same
// samples in an LMDB file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/usage_error.h"
#include "server/storage/extents/extent_cache.h"
#include "server/storage/extents/extent_source.h"
#include "server/storage/objects/local_objects.h"
#include "server/storage/tfrecord/tfrecord_format.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/tfrecord/tfrecord_testing.h"
#include "tests/server/storage/unpack/unpack_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSamples = 50;
constexpr int kShards = 4;

class TfrecordSourceTest : public ::testing::Test {
 protected:
  // The samples of ImageDataset() with ImageNet's features, labels from 1 on.
  TfrecordSourceTest() {
    options_.cache_dir = folder_ / "cache";
    for (int shard = 0; shard < kShards; ++shard) {
      WriteFile(ShardPath(shard), RecordFile(Payloads(shard)));
    }
    const auto names = ImageDataset(kSamples).schema().fields(1).class_names();
    WriteFile(folder_ / "names.txt", absl::StrJoin(names, "\n"));
  }

  std::string ShardPath(int shard) const {
    return folder_ / absl::StrFormat("train-%05d-of-%05d", shard, kShards);
  }
  std::string Pattern() const { return folder_ / "train-*"; }

  std::vector<std::string> Payloads(int shard) const {
    std::vector<std::string> payloads;
    for (int64_t i = shard * kSamples / kShards;
         i < (shard + 1) * kSamples / kShards; ++i) {
      int64_t label;
      std::memcpy(&label, samples_[i][1].data(), sizeof(label));
      payloads.push_back(ExampleBytes(
          {{"image/encoded", Strings({samples_[i][0]})},
           {"image/class/label", Ints({label + 1})},
           {"image/filename", Strings({absl::StrCat(i, ".jpg")})}}));
    }
    return payloads;
  }

  absl::StatusOr<std::unique_ptr<RecordSource>> Open(
      const std::string& query = "") {
    return OpenExtentSource(TfrecordFormat(), Pattern() + query, options_);
  }

  // `millrace-data index`.
  absl::Status Index(const std::string& query, uint32_t threads) {
    const auto uri = ExtentUri::Parse("tfrecord", Pattern() + query);
    LocalObjects objects;
    std::string file;
    return MakeExtentIndex(
               TfrecordFormat(), *uri, objects, options_.cache_dir,
               {.threads = threads, .content = true, .progress = {}}, &file)
        .status();
  }

  const TempFolder folder_;
  const Samples samples_ = ImageSamples(kSamples);
  OpenSourceOptions options_;
};

TEST_F(TfrecordSourceTest, HasTheSamplesOfTheFiles) {
  const auto source = Open();
  ASSERT_TRUE(source.ok()) << source.status();
  const DatasetInfo& info = (*source)->info();
  EXPECT_EQ(info.format(), "tfrecord");
  EXPECT_EQ(info.samples(), kSamples);
  EXPECT_EQ(info.shards_size(), kShards);
  EXPECT_EQ(info.shards(1).name(), "train-00001-of-00004");
  EXPECT_EQ(info.shards(1).first_sample(), kSamples / kShards);
  const auto samples = ReadAll(**source);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(*samples, samples_);
}

TEST_F(TfrecordSourceTest, AFolderHasFilesOfOneEnding) {
  const std::string folder = folder_ / "packed";
  std::filesystem::create_directory(folder);
  const auto path = [&](int shard, const std::string& suffix) {
    return absl::StrFormat("%s/train-%05d-of-%05d%s", folder, shard, kShards,
                           suffix);
  };
  const auto open = [&](const std::string& rest) {
    return OpenExtentSource(TfrecordFormat(), folder + rest, options_);
  };
  for (int shard = 0; shard < kShards; ++shard) {
    WriteFile(path(shard, ".tfrecord.gz"),
              Compress(Codec::kGzip, RecordFile(Payloads(shard))));
  }
  const auto packed = open("");
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(*ReadAll(**packed), samples_);
  std::filesystem::remove(path(1, ".tfrecord.gz"));
  EXPECT_THAT(std::string(open("").status().message()),
              HasSubstr("train-00001-of-00004.tfrecord is missing"));
  // The other files would be missing from the dataset.
  WriteFile(path(1, ".tfrecord"), RecordFile(Payloads(1)));
  const absl::Status refused = open("").status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(" (train-00001-of-00004.tfrecord, "
                        "train-00000-of-00004.tfrecord.gz): name those of the "
                        "dataset by a glob, such as " +
                        folder + "/* for"));
  const auto all = open("/*");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(*ReadAll(**all), samples_);
}

TEST_F(TfrecordSourceTest, HasTheFingerprintOfThePackedDataset) {
  const auto packed = Pack(absl::StrCat("lmdb:", folder_ / "d.lmdb"),
                           ImageDataset(kSamples), samples_);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const std::string query = absl::StrCat("?classes=", folder_ / "names.txt");
  const auto listed = Open(query);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_NE((*listed)->info().fingerprint(), packed->fingerprint());
  for (const uint32_t threads : {1, 3}) {
    ASSERT_TRUE(Index(query, threads).ok());
    const auto source = Open(query);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ((*source)->info().fingerprint(), packed->fingerprint());
    EXPECT_EQ((*source)->info().schema().SerializeAsString(),
              packed->schema().SerializeAsString());
    EXPECT_EQ(*ReadAll(**source), samples_);
  }
}

TEST_F(TfrecordSourceTest, ThreadsReadTheSameSamples) {
  const auto source = Open();
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t, &source] {
      const auto reader = (*source)->NewReader();
      for (int64_t n = 0; n < kSamples; ++n) {
        const int64_t i = (n * 7 + t * 13) % kSamples;
        const absl::Status read =
            (*reader)->Read(i, [&](const EncodedSample& sample) {
              EXPECT_EQ(AsText(sample.fields[0]), samples_[i][0]);
              EXPECT_EQ(AsText(sample.fields[1]), samples_[i][1]);
              return absl::OkStatus();
            });
        EXPECT_TRUE(read.ok()) << read;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(TfrecordSourceTest, ADamagedRecordIsOneBadSample) {
  std::string file = ReadFile(ShardPath(1));
  file[100] ^= 1;
  WriteFile(ShardPath(1), file);
  // Its extent is found: only its payload is damaged.
  const auto source = Open();
  ASSERT_TRUE(source.ok()) << source.status();
  const auto reader = (*source)->NewReader();
  int bad = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const absl::Status read = (*reader)->Read(
        i, [](const EncodedSample&) { return absl::OkStatus(); });
    if (read.ok()) continue;
    ++bad;
    EXPECT_EQ(i, kSamples / kShards);
    EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(
        read.message(),
        AllOf(HasSubstr("train-00001-of-00004"), HasSubstr("at byte 12"),
              HasSubstr("do not match their checksum")));
  }
  EXPECT_EQ(bad, 1);
  const absl::Status indexed = Index("", 2);
  EXPECT_EQ(indexed.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(indexed.message(),
              AllOf(HasSubstr("train-00001-of-00004"),
                    HasSubstr("do not match their checksum")));
}

TEST_F(TfrecordSourceTest, AFileThatIsCutOffIsRefusedByItsName) {
  const std::string file = ReadFile(ShardPath(2));
  WriteFile(ShardPath(2), file.substr(0, file.size() - 1));
  const auto source = Open();
  EXPECT_EQ(source.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(source.status().message(),
              AllOf(HasSubstr("train-00002-of-00004"), HasSubstr("byte "),
                    HasSubstr("the file is cut off; copy it again")));
}

TEST_F(TfrecordSourceTest, WrongOptionsAreRefused) {
  const auto unknown = Open("?lable=x");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(IsUsageError(unknown.status()));
  EXPECT_THAT(unknown.status().message(), HasSubstr("label"));
  EXPECT_THAT(Open("?fields=image/height").status().message(),
              AllOf(HasSubstr("train-00000-of-00004"),
                    HasSubstr("has no feature 'image/height'")));
  EXPECT_THAT(Open("?fields=image/filename&label_offset=1").status().message(),
              HasSubstr("need a field with a class index"));
}

TEST_F(TfrecordSourceTest, ImagenetsLabelsMayBeginAtZero) {
  const auto source =
      Open("?image=image/encoded&label=image/class/label&label_offset=-1");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(*ReadAll(**source), samples_);
}

}  // namespace
}  // namespace millrace::storage
