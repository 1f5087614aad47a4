#include "server/storage/sample_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

absl::Status CheckSample(const SampleCheck& check,
                         const std::vector<std::string>& sample) {
  std::vector<absl::Span<const uint8_t>> fields;
  for (const std::string& field : sample) {
    fields.push_back(
        {reinterpret_cast<const uint8_t*>(field.data()), field.size()});
  }
  return check.Check(fields);
}

TEST(SampleCheckTest, RightSamplesPass) {
  const auto check = SampleCheck::Create(EveryKindDataset(1).schema());
  ASSERT_TRUE(check.ok()) << check.status();
  for (const auto& sample : EveryKindSamples(20)) {
    EXPECT_TRUE(CheckSample(*check, sample).ok());
  }
}

TEST(SampleCheckTest, EachFieldOfAWrongSizeIsNamed) {
  const DatasetInfo info = EveryKindDataset(1);
  const auto check = SampleCheck::Create(info.schema());
  const std::vector<std::string> right = EveryKindSamples(4)[3];
  for (int i = 0; i < info.schema().fields_size(); ++i) {
    const Field& field = info.schema().fields(i);
    if (field.name() == "text" || field.name() == "image") continue;
    std::vector<std::string> wrong = right;
    wrong[i].push_back('x');
    const absl::Status status = CheckSample(*check, wrong);
    EXPECT_TRUE(absl::IsDataLoss(status)) << field.name();
    EXPECT_THAT(std::string(status.message()), HasSubstr("'" + field.name()));
  }
  EXPECT_TRUE(absl::IsDataLoss(CheckSample(*check, {"a"})));
}

TEST(SampleCheckTest, ClassesOutsideTheirRangeAreRefused) {
  const auto check = SampleCheck::Create(ImageDataset(1).schema());
  for (int64_t label : {0, 1, 2}) {
    EXPECT_TRUE(CheckSample(*check, {"", Scalar(label)}).ok());
  }
  for (int64_t label : {int64_t{3}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    const absl::Status status = CheckSample(*check, {"", Scalar(label)});
    EXPECT_TRUE(absl::IsDataLoss(status)) << label;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::to_string(label)));
  }
}

TEST(SampleCheckTest, WrongSchemasAreRefused) {
  const auto wrong = [](auto change) {
    Schema schema = EveryKindDataset(1).schema();
    change(schema);
    return SampleCheck::Create(schema).status();
  };
  const auto field = [](Schema& schema, const char* name) -> Field* {
    for (Field& f : *schema.mutable_fields()) {
      if (f.name() == name) return &f;
    }
    return nullptr;
  };
  EXPECT_TRUE(wrong([](Schema&) {}).ok());
  EXPECT_FALSE(wrong([](Schema& s) { s.Clear(); }).ok());
  EXPECT_FALSE(
      wrong([](Schema& s) { s.mutable_fields(0)->clear_name(); }).ok());
  EXPECT_FALSE(
      wrong([](Schema& s) { s.mutable_fields(0)->clear_kind(); }).ok());
  EXPECT_FALSE(wrong([](Schema& s) { *s.add_fields() = s.fields(0); }).ok());
  EXPECT_FALSE(
      wrong([&](Schema& s) { field(s, "raw")->set_shape(0, 0); }).ok());
  EXPECT_FALSE(
      wrong([&](Schema& s) { field(s, "raw")->set_shape(0, -1); }).ok());
  EXPECT_FALSE(wrong([&](Schema& s) {
                 for (int i = 0; i < 3; ++i) {
                   field(s, "raw")->set_shape(i, int64_t{1} << 30);
                 }
               }).ok());
  EXPECT_FALSE(wrong([&](Schema& s) { field(s, "i64")->clear_dtype(); }).ok());
  EXPECT_FALSE(
      wrong([&](Schema& s) { field(s, "i32")->set_num_classes(3); }).ok());
  EXPECT_FALSE(
      wrong([&](Schema& s) { field(s, "class")->set_num_classes(-3); }).ok());
  EXPECT_FALSE(
      wrong([&](Schema& s) { field(s, "class")->add_class_names("a"); }).ok());
}

}  // namespace
}  // namespace millrace::storage
