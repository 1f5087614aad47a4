// How plans and messages name an operator of the --operators libraries: by its
// name, its version and the hash of its library's file.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_OPERATORS_OPERATOR_REF_H_
#define MILLRACE_SERVER_OPERATORS_OPERATOR_REF_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace::operators {

// "gamma 1.0 of the library 3f7a...", as messages name an operator.
std::string FormatOperator(const OperatorRef& ref);

// Compares what a resolved spec asks for with what the server has. An empty
// version or hash asks for any. FailedPrecondition: says which of the two
// differs, both values and what to do.
absl::Status CheckSameOperator(absl::string_view kind, const OperatorRef& asked,
                               const OperatorRef& have);

}  // namespace millrace::operators

#endif  // MILLRACE_SERVER_OPERATORS_OPERATOR_REF_H_
