// The fields of a protobuf message as JSON, under their names in the .proto.
//
// It is not protobuf's own JSON: 64-bit integers are numbers, a single
// submessage has no object of its own (its fields join those around it), and
// fields without a value are written too. An enum is the name of its value, or
// its number when the value has no name here.
//
// Pure function, safe from any thread.
//
//   JsonObject json;
//   AddFields(status, &json);

#ifndef MILLRACE_CLIENT_CLI_MESSAGE_JSON_H_
#define MILLRACE_CLIENT_CLI_MESSAGE_JSON_H_

#include <google/protobuf/message.h>

#include "common/json_text.h"

namespace millrace::cli {

// Without answer_xxh3, which is of the answer as it was sent.
void AddFields(const google::protobuf::Message& message, JsonObject* json);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_MESSAGE_JSON_H_
