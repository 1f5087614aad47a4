// Files that TensorFlow and PyPI's tfrecord wrote
// (tests/testdata/tfrecord/make_tfrecords.py), through the whole format.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/status_macros.h"
#include "server/storage/tfrecord/tfrecord_format.h"
#include "tests/server/storage/storage_testing.h"
#include "tests/server/storage/tfrecord/tfrecord_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

const std::string kData = "tests/testdata/tfrecord/";
const std::string kImages = "tests/testdata/images/";

struct Dataset {
  std::unique_ptr<FieldRule> rule;
  Samples samples;
};

// Appends the samples of the file of `bytes`.
absl::Status ReadInto(const std::string& bytes, const FormatOptions& options,
                      Dataset* dataset) {
  const ExtentFormat& format = TfrecordFormat();
  OwnedWindow window(bytes);
  if (dataset->rule == nullptr) {
    MR_ASSIGN_OR_RETURN(const auto rule, format.NewRule({}, options, window));
    // As a reader of the index has it.
    MR_ASSIGN_OR_RETURN(dataset->rule, format.RestoreRule(rule->Encode()));
  }
  MR_ASSIGN_OR_RETURN(const auto scanner, format.Scan(window, *dataset->rule));
  while (true) {
    MR_ASSIGN_OR_RETURN(const auto record, scanner->Next());
    if (!record.has_value()) return absl::OkStatus();
    RecordFields fields(dataset->rule->schema().fields_size());
    MR_RETURN_IF_ERROR(dataset->rule->Split(
        AsBytes(bytes).subspan(record->offset, record->bytes), {}, &fields));
    std::vector<std::string>& sample = dataset->samples.emplace_back();
    for (const auto& field : fields.all()) sample.push_back(AsText(field));
  }
}

// All samples of the dataset at `path`.
absl::StatusOr<Dataset> Read(const std::string& path,
                             const FormatOptions& options = {}) {
  MR_ASSIGN_OR_RETURN(const ObjectList objects,
                      TfrecordFormat().List(path, options));
  Dataset dataset;
  for (const std::string& name : objects.names) {
    MR_RETURN_IF_ERROR(ReadInto(ReadFile(name), options, &dataset));
  }
  return dataset;
}

std::string Label(int64_t label) { return NumberText(label); }

TEST(ForeignTfrecord, ImagenetAsTensorflowWritesIt) {
  const auto dataset = Read(kData + "imagenet-*");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->rule->schema().fields(0).name(), "image");
  EXPECT_EQ(dataset->rule->schema().fields(0).kind(), FIELD_KIND_ENCODED_IMAGE);
  EXPECT_EQ(dataset->rule->schema().fields(1).name(), "label");
  EXPECT_EQ(dataset->rule->class_field(), 1);
  EXPECT_EQ(dataset->samples,
            Samples({{ReadFile(kImages + "jpeg_gray.jpg"), Label(2)},
                     {ReadFile(kImages + "jpeg_420.jpg"), Label(0)},
                     {ReadFile(kImages + "jpeg_rgb.jpg"), Label(999)}}));
}

TEST(ForeignTfrecord, EveryTypeAsTensorflowWritesIt) {
  const auto dataset = Read(kData + "types.tfrecord", {{"ragged", "ids"}});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Samples expected;
  for (int64_t i = 1; i <= 5; ++i) {
    std::string ids;
    for (int64_t id = 0; id < i; ++id) ids += NumberText(id);
    const auto f = static_cast<float>(i);
    expected.push_back(
        {NumberText(-i), ids, Label(i % 3),
         NumberText((int64_t{1} << 62) + i) + NumberText(INT64_MIN),
         NumberText(f + 0.5F), absl::StrCat("record ", i),
         NumberText(f) + NumberText(-f) + NumberText(f / 4)});
  }
  EXPECT_EQ(dataset->samples, expected);
}

TEST(ForeignTfrecord, ListsOfDifferentLengthsMustBeDeclared) {
  const absl::Status error = Read(kData + "types.tfrecord").status();
  EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(error.message(),
            "field 'ids' has 2 integers in this record, and 1 integer in the "
            "first record of the dataset: add the option ragged=ids if the "
            "number differs between records");
}

TEST(ForeignTfrecord, AsPypisTfrecordWritesIt) {
  const auto dataset = Read(kData + "pypi.tfrecord");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->samples,
            Samples({{ReadFile(kImages + "jpeg_gray.jpg"),
                      NumberText(3.0F) + NumberText(0.5F), Label(3)},
                     {ReadFile(kImages + "jpeg_420.jpg"),
                      NumberText(1.0F) + NumberText(0.5F), Label(1)},
                     {ReadFile(kImages + "jpeg_rgb.jpg"),
                      NumberText(1000.0F) + NumberText(0.5F), Label(0)}}));
}

TEST(ForeignTfrecord, OtherFilesAreRefused) {
  const struct {
    const char* file;
    const char* says;
  } cases[] = {
      {"types.gzip", "byte 0: the file is compressed with gzip"},
      {"types.zlib", "byte 0: the file is compressed with zlib"},
      {"sequence.tfrecord", "its payload is a tf.train.SequenceExample"},
      {"tensor.tfrecord", "its payload is no tf.train.Example"},
  };
  for (const auto& each : cases) {
    const absl::Status error = Read(kData + each.file).status();
    EXPECT_EQ(error.code(), absl::StatusCode::kUnimplemented) << each.file;
    EXPECT_THAT(error.message(), HasSubstr(each.says));
  }
}

TEST(ForeignTfrecord, EveryChangedByteIsNoticed) {
  const std::string good = ReadFile(kData + "types.tfrecord");
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] ^= 1;
    Dataset dataset;
    const absl::Status error = ReadInto(bytes, {{"ragged", "ids"}}, &dataset);
    ASSERT_EQ(error.code(), absl::StatusCode::kDataLoss) << at;
    ASSERT_THAT(std::string(error.message()),
                ::testing::AnyOf(HasSubstr("byte "),
                                 HasSubstr("bytes of the record do not match")))
        << at;
  }
}

TEST(TfrecordFormat, ListsFilesFoldersAndGlobs) {
  const TempFolder folder;
  for (const char* name : {"b.tfrecord", "a.tfrecord", "notes.txt"}) {
    WriteFile(folder / name, "x");
  }
  const std::vector<std::string> both = {folder / "a.tfrecord",
                                         folder / "b.tfrecord"};
  const ExtentFormat& format = TfrecordFormat();
  EXPECT_EQ(format.List(folder.path(), {})->names, both);
  EXPECT_EQ(format.List(folder / "*.tfrecord", {})->names, both);
  EXPECT_EQ(format.List(folder / "notes.txt", {})->names,
            std::vector<std::string>({folder / "notes.txt"}));
  EXPECT_EQ(format.List(folder / "none-*", {}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(format.List(folder.path(), {{"x", "y"}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TfrecordFormat, RefusesIncompleteAndMixedSets) {
  for (const auto& [first, second] :
       std::vector<std::pair<std::string, std::string>>{
           {"t-00000-of-00003", "t-00002-of-00003"},
           {"t.tfrecord-00000-of-00003", "t.tfrecord-00002-of-00003"},
           {"t-00000-of-00003.tfrecord", "t-00002-of-00003.tfrecord"},
           {"t-00000-of-00001", "u-00000-of-00001"}}) {
    const TempFolder folder;
    WriteFile(folder / first, "x");
    WriteFile(folder / second, "x");
    EXPECT_EQ(TfrecordFormat().List(folder / "*", {}).status().code(),
              absl::StatusCode::kDataLoss)
        << first;
    EXPECT_TRUE(TfrecordFormat().List(folder / first, {}).ok()) << first;
  }
}

TEST(TfrecordFormat, ARangeNamesAPartOfASet) {
  const TempFolder folder;
  for (const char* name : {"t-00000-of-00003", "t-00001-of-00003"}) {
    WriteFile(folder / name, "x");
  }
  const auto objects =
      TfrecordFormat().List(folder / "t-{00000..00001}-of-00003", {});
  ASSERT_TRUE(objects.ok()) << objects.status();
  EXPECT_EQ(objects->names.size(), 2);
}

TEST(TfrecordFormat, ADamagedFirstRecordHasNoRule) {
  std::string file = RecordFile({ExampleBytes({{"a", Ints({1})}})});
  file[15] ^= 1;
  OwnedWindow window(file);
  const absl::Status error = TfrecordFormat().NewRule({}, {}, window).status();
  EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(error.message()),
              ::testing::StartsWith("byte 12: the 14 bytes of the record do "
                                    "not match their checksum"));
}

TEST(TfrecordFormat, AnEmptyObjectHasNoRule) {
  OwnedWindow window("");
  EXPECT_EQ(TfrecordFormat().NewRule({}, {}, window).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(TfrecordFormat().RestoreRule("x").status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace::storage
