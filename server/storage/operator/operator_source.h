// A dataset that a source of the server's --operators libraries reads: a
// RecordSource over the functions of server/operators/millrace_operator.h. It
// checks every sample against the schema that the source has given, as for the
// server's own formats.
//
// Thread-safe as RecordSource says; a reader of the library for each reader.
// The fingerprint covers what the source says of its content, the schema, and
// the library's file: two servers agree when both are the same.

#ifndef MILLRACE_SERVER_STORAGE_OPERATOR_OPERATOR_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_OPERATOR_OPERATOR_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/operators/operators.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

// `path` is the URI behind the scheme. What the library answers, or
// InvalidArgument: its description of the dataset is wrong; says what.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenOperatorSource(
    const operators::Operators::Source& source, const std::string& path);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_OPERATOR_OPERATOR_SOURCE_H_
