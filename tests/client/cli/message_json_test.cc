// What `millrace status --json` writes of a message, whatever its fields are.

#include "client/cli/message_json.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/data_service.pb.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::cli {
namespace {

std::string Json(const google::protobuf::Message& message) {
  JsonObject json;
  AddFields(message, &json);
  return json.Json();
}

// A repeated number ended the process, and an enum was left out.
TEST(MessageJsonTest, WritesListsOfScalarsAndEnumsByName) {
  Field field;
  field.set_name("image");
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(DTYPE_UINT8);
  field.add_shape(28);
  field.add_shape(-1);
  field.add_class_names("a \"cat\"");
  EXPECT_EQ(Json(field),
            "{\"name\": \"image\", \"kind\": \"FIELD_KIND_TENSOR\", \"dtype\": "
            "\"DTYPE_UINT8\", \"shape\": [28, -1], \"num_classes\": 0, "
            "\"class_names\": [\"a \\\"cat\\\"\"]}");
  // Of a later version.
  field.set_kind(static_cast<FieldKind>(77));
  EXPECT_EQ(Json(field).substr(0, 32),
            "{\"name\": \"image\", \"kind\": 77, \"d");
}

TEST(MessageJsonTest, ASubmessageJoinsTheFieldsAroundIt) {
  Schema schema;
  schema.add_fields()->set_name("x");
  DatasetInfo info;
  *info.mutable_schema() = schema;
  const std::string json = Json(info);
  EXPECT_NE(json.find("\"samples\": 0, \"fields\": [{\"name\": \"x\""),
            std::string::npos)
      << json;
}

TEST(MessageJsonTest, LeavesTheHashOfTheAnswerOut) {
  GetStatusResponse status;
  status.set_answer_xxh3(5);
  EXPECT_EQ(Json(status).find("answer_xxh3"), std::string::npos);
}

}  // namespace
}  // namespace millrace::cli
