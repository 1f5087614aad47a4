// `millrace-data pack --format=cifar10|cifar100` over files made byte by byte.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/data_tool/png_encoder.h"
#include "server/storage/open.h"
#include "tests/server/data_tool/call_tool.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::data_tool {
namespace {

using storage::WriteFile;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kPlane = 32 * 32;

uint8_t Value(int image, int channel, int pixel) {
  return static_cast<uint8_t>(image * 7 + channel * 80 + pixel % 61);
}

// As the format says: labels, then the planes R, G, B.
std::string Record(const std::string& labels, int image) {
  std::string record = labels;
  for (int channel = 0; channel < 3; ++channel) {
    for (int pixel = 0; pixel < kPlane; ++pixel) {
      record.push_back(static_cast<char>(Value(image, channel, pixel)));
    }
  }
  return record;
}

// [32, 32, 3].
std::string Pixels(int image) {
  std::string pixels;
  for (int pixel = 0; pixel < kPlane; ++pixel) {
    for (int channel = 0; channel < 3; ++channel) {
      pixels.push_back(static_cast<char>(Value(image, channel, pixel)));
    }
  }
  return pixels;
}

class CifarTest : public ::testing::Test {
 protected:
  Result Pack(const std::string& format, const std::string& output,
              std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"pack", "--format=" + format,
                                     "--input=" + folder_.path(), "--overwrite",
                                     "--output=" + output};
    args.insert(args.end(), more.begin(), more.end());
    return Call(args);
  }
  std::string Output() const { return "lmdb:" + out_ / "d"; }
  void ExpectRefused(const std::string& format, const std::string& sentence,
                     int code = program::kExitFailed,
                     std::vector<std::string> more = {}) {
    const Result refused = Pack(format, Output(), more);
    EXPECT_EQ(refused.code, code) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(sentence));
    EXPECT_FALSE(std::filesystem::exists(out_ / "d"));
  }
  storage::Samples Read(const std::string& uri, DatasetInfo* info) {
    const auto source = storage::OpenRecordSource(uri, {});
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return {};
    *info = (*source)->info();
    const auto samples = storage::ReadAll(**source);
    EXPECT_TRUE(samples.ok()) << samples.status();
    return samples.ok() ? *samples : storage::Samples();
  }
  // Image i has label 9 - i; three files of two records.
  void MakeCifar10() {
    for (int file = 0; file < 3; ++file) {
      std::string bytes;
      for (int i = file * 2; i < file * 2 + 2; ++i) {
        bytes += Record(std::string(1, static_cast<char>(9 - i)), i);
      }
      WriteFile(folder_ / absl::StrCat("data_batch_", file + 1, ".bin"), bytes);
    }
    WriteFile(folder_ / "test_batch.bin", Record("\x04", 100));
    std::vector<std::string> names;
    for (int i = 0; i < 10; ++i) names.push_back(absl::StrCat("class ", i));
    WriteFile(folder_ / "batches.meta.txt",
              absl::StrCat(absl::StrJoin(names, "\n"), "\n\n"));
  }
  storage::TempFolder folder_;
  storage::TempFolder out_;
};

TEST_F(CifarTest, Cifar10BecomesPixelsAndLabels) {
  MakeCifar10();
  for (const std::string& scheme : storage::Schemes()) {
    const std::string uri = absl::StrCat(scheme, ":", out_ / scheme);
    const Result packed = Pack("cifar10", uri);
    ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
    EXPECT_THAT(packed.err, HasSubstr("3 files data_batch_N.bin; CIFAR-10 has "
                                      "5"));
    DatasetInfo info;
    const storage::Samples samples = Read(uri, &info);
    ASSERT_EQ(samples.size(), 6u);
    for (int i = 0; i < 6; ++i) {
      std::string image = Pixels(i);
      if (scheme == "parquet") {
        std::string png;
        ASSERT_TRUE(EncodePng({reinterpret_cast<const uint8_t*>(image.data()),
                               image.size()},
                              32, 32, 3, &png)
                        .ok());
        image = png;
      }
      EXPECT_THAT(samples[i],
                  ElementsAre(image, storage::Scalar<int64_t>(9 - i)));
    }
    const Field& image = info.schema().fields(0);
    EXPECT_EQ(image.name(), "image");
    EXPECT_EQ(image.kind(), scheme == "parquet" ? FIELD_KIND_ENCODED_IMAGE
                                                : FIELD_KIND_TENSOR);
    const Field& label = info.schema().fields(1);
    EXPECT_EQ(label.name(), "label");
    EXPECT_EQ(label.num_classes(), 10);
    EXPECT_EQ(label.class_names(4), "class 4");
    EXPECT_EQ(info.train_preset(), "cifar_train");
    EXPECT_EQ(info.eval_preset(), "cifar_eval");
  }
  DatasetInfo info;
  ASSERT_EQ(Pack("cifar10", Output(), {"--split=test"}).code, program::kExitOk);
  EXPECT_THAT(
      Read(Output(), &info),
      ElementsAre(ElementsAre(Pixels(100), storage::Scalar<int64_t>(4))));
}

TEST_F(CifarTest, Cifar100HasFineAndCoarseLabels) {
  // The coarse label comes first.
  WriteFile(folder_ / "train.bin",
            Record("\x13\x63", 0) + Record("\x02\x05", 1));
  WriteFile(folder_ / "test.bin", Record(std::string(2, '\0'), 2));
  for (const std::string split : {"train", "test"}) {
    const std::string uri = "lmdb:" + out_ / split;
    const Result packed = Pack("cifar100", uri, {"--split=" + split});
    ASSERT_EQ(packed.code, program::kExitOk) << packed.err;
    EXPECT_EQ(packed.err, "");
  }
  DatasetInfo info;
  EXPECT_THAT(Read("lmdb:" + out_ / "train", &info),
              ElementsAre(ElementsAre(Pixels(0), storage::Scalar<int64_t>(99),
                                      storage::Scalar<int64_t>(19)),
                          ElementsAre(Pixels(1), storage::Scalar<int64_t>(5),
                                      storage::Scalar<int64_t>(2))));
  EXPECT_EQ(info.schema().fields(1).name(), "label");
  EXPECT_EQ(info.schema().fields(1).num_classes(), 100);
  EXPECT_EQ(info.schema().fields(1).class_names_size(), 0);
  EXPECT_EQ(info.schema().fields(2).name(), "coarse_label");
  EXPECT_EQ(info.schema().fields(2).num_classes(), 20);
}

TEST_F(CifarTest, DamagedFilesAreNamed) {
  MakeCifar10();
  const std::string path = folder_ / "data_batch_2.bin";
  const std::string bytes = storage::ReadFile(path);
  WriteFile(path, bytes.substr(0, bytes.size() - 1));
  ExpectRefused("cifar10", path +
                               " has 6,145 bytes, which is no multiple of "
                               "3073");
  WriteFile(path, "");
  ExpectRefused("cifar10", path + " has 0 bytes");
  std::string label = bytes;
  label[3073] = 10;
  WriteFile(path, label);
  ExpectRefused("cifar10", path +
                               " has label 10 at byte 3073, but there are "
                               "10 classes");
  WriteFile(path, bytes);
  WriteFile(folder_ / "batches.meta.txt", "cat\ndog\n");
  ExpectRefused("cifar10", "batches.meta.txt has 2 names, but there are 10");
}

TEST_F(CifarTest, MissingFilesAreNamed) {
  MakeCifar10();
  std::filesystem::remove(folder_ / "data_batch_2.bin");
  ExpectRefused("cifar10", "there is no data_batch_2.bin in " + folder_.path(),
                program::kExitUsage);
  ExpectRefused("cifar100", "there is no train.bin in " + folder_.path(),
                program::kExitUsage);
  ExpectRefused("cifar10", "there is no split 'val' of CIFAR files",
                program::kExitUsage, {"--split=val"});
  ExpectRefused("cifar10", "--skip_bad needs --format=imagefolder",
                program::kExitUsage, {"--skip_bad"});
  ExpectRefused("cifar10", "--seekable needs --format=imagefolder",
                program::kExitUsage, {"--seekable"});
}

}  // namespace
}  // namespace millrace::data_tool
