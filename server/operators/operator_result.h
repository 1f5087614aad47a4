// OperatorResult takes what a function of a library answers, and makes a Status
// of it: the sentence of the operator, with its name in front.
//
// One for each call, on the stack.
//
//   OperatorResult result;
//   result = transform.create(config, &input, &output, &handle,
//   result.error()); MR_RETURN_IF_ERROR(result.ToStatus("transform gamma",
//   kInvalidArgument));

#ifndef MILLRACE_SERVER_OPERATORS_OPERATOR_RESULT_H_
#define MILLRACE_SERVER_OPERATORS_OPERATOR_RESULT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/operators/millrace_operator.h"

namespace millrace::operators {

class OperatorResult {
 public:
  // Room of MILLRACE_ERROR_BYTES; empty.
  char* error() { return error_; }

  OperatorResult& operator=(millrace_result result) {
    result_ = result;
    return *this;
  }

  // `invalid` is what MILLRACE_INVALID means here. NotFound, Unavailable,
  // ResourceExhausted as they are called; Internal: a result that the border
  // does not have.
  absl::Status ToStatus(absl::string_view who, absl::StatusCode invalid) const {
    if (result_ == MILLRACE_OK) return absl::OkStatus();
    return Failed(who, invalid);
  }

 private:
  absl::Status Failed(absl::string_view who, absl::StatusCode invalid) const;

  millrace_result result_ = MILLRACE_OK;
  char error_[MILLRACE_ERROR_BYTES] = {};
};

// A text of a library for messages: control characters and what is no UTF-8
// are escaped, and it is cut at 4096 bytes (clean_text.h).
std::string Printable(absl::string_view text);

}  // namespace millrace::operators

#endif  // MILLRACE_SERVER_OPERATORS_OPERATOR_RESULT_H_
