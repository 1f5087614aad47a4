#include "client/cli/message_json.h"

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::cli {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::EnumValueDescriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;

std::string EnumJson(const FieldDescriptor& field, int number) {
  const EnumValueDescriptor* const value =
      field.enum_type()->FindValueByNumber(number);
  return value == nullptr ? JsonOf(number) : JsonOf(value->name());
}

// The value of `field`, or its element `at` when it is repeated.
std::string ValueJson(const Message& message, const FieldDescriptor* field,
                      int at) {
  const Reflection& reflection = *message.GetReflection();
  const bool many = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return JsonOf(many ? reflection.GetRepeatedString(message, field, at)
                         : reflection.GetString(message, field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return JsonOf(many ? reflection.GetRepeatedBool(message, field, at)
                         : reflection.GetBool(message, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return JsonOf(many ? reflection.GetRepeatedDouble(message, field, at)
                         : reflection.GetDouble(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return JsonOf(many ? reflection.GetRepeatedFloat(message, field, at)
                         : reflection.GetFloat(message, field));
    case FieldDescriptor::CPPTYPE_INT32:
      return JsonOf(many ? reflection.GetRepeatedInt32(message, field, at)
                         : reflection.GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return JsonOf(many ? reflection.GetRepeatedUInt32(message, field, at)
                         : reflection.GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return JsonOf(many ? reflection.GetRepeatedInt64(message, field, at)
                         : reflection.GetInt64(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return JsonOf(many ? reflection.GetRepeatedUInt64(message, field, at)
                         : reflection.GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumJson(*field,
                      many ? reflection.GetRepeatedEnumValue(message, field, at)
                           : reflection.GetEnumValue(message, field));
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      JsonObject object;
      AddFields(many ? reflection.GetRepeatedMessage(message, field, at)
                     : reflection.GetMessage(message, field),
                &object);
      return object.Json();
    }
  }
  return "null";  // a type of a later protobuf
}

}  // namespace

void AddFields(const Message& message, JsonObject* json) {
  const Reflection& reflection = *message.GetReflection();
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    if (field->is_repeated()) {
      std::vector<std::string> elements;
      for (int j = 0; j < reflection.FieldSize(message, field); ++j) {
        elements.push_back(ValueJson(message, field, j));
      }
      json->AddJson(field->name(),
                    absl::StrCat("[", absl::StrJoin(elements, ", "), "]"));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AddFields(reflection.GetMessage(message, field), json);
    } else if (field->number() != GetStatusResponse::kAnswerXxh3FieldNumber) {
      json->AddJson(field->name(), ValueJson(message, field, -1));
    }
  }
}

}  // namespace millrace::cli
