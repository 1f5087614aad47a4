#include "server/storage/extents/file_rule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::storage {
namespace {

Schema ImageAndLabel() {
  Schema schema;
  Field& image = *schema.add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  Field& label = *schema.add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(2);
  label.add_class_names("cat");
  label.add_class_names("dog");
  return schema;
}

TEST(FileRule, IsRestored) {
  for (const int class_field : {-1, 0, 1}) {
    const FileRule rule(ImageAndLabel(), class_field);
    const auto same = FileRule::Restore(rule.Encode());
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_EQ((*same)->class_field(), class_field);
    EXPECT_EQ((*same)->schema().DebugString(), ImageAndLabel().DebugString());
    EXPECT_EQ((*same)->Encode(), rule.Encode());
  }
}

TEST(FileRule, OtherBytesAreRefused) {
  const std::string rule = FileRule(ImageAndLabel(), 1).Encode();
  for (const std::string& bytes :
       {std::string(), std::string("files 1\n"), "x" + rule,
        rule.substr(0, rule.size() - 1), FileRule(ImageAndLabel(), 2).Encode(),
        FileRule(ImageAndLabel(), -2).Encode()}) {
    EXPECT_TRUE(absl::IsDataLoss(FileRule::Restore(bytes).status())) << bytes;
  }
}

TEST(FileRule, TheRecordIsTheFirstField) {
  const FileRule rule(ImageAndLabel(), 1);
  const std::vector<uint8_t> record = {1, 2, 3};
  RecordFields fields(2);
  EXPECT_TRUE(rule.Split(record, {}, &fields).ok());
  EXPECT_EQ(fields.all()[0].data(), record.data());
  EXPECT_EQ(fields.all()[0].size(), 3);
  fields.Clear();
  EXPECT_TRUE(rule.Split(record, {false, true}, &fields).ok());
  EXPECT_TRUE(fields.all()[0].empty());
}

}  // namespace
}  // namespace millrace::storage
