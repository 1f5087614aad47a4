// Marks a status as a mistake on the command line or in a file that it names as
// configuration. A program ends with 2 for such a status and with 1 for others:
// starting it again does not help (docs/operations.md, "Exit codes").
//
// Pure functions, safe from any thread.
//
//   MR_RETURN_IF_ERROR(UsageError(flags.Parse(arguments)));
//   ...
//   return IsUsageError(status) ? 2 : 1;

#ifndef MILLRACE_COMMON_USAGE_ERROR_H_
#define MILLRACE_COMMON_USAGE_ERROR_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace {

// `status` with the mark. OK stays OK, and a Cancelled request is no mistake.
absl::Status UsageError(absl::Status status);

template <typename T>
absl::StatusOr<T> UsageError(absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return UsageError(std::move(result).status());
}

bool IsUsageError(const absl::Status& status);

}  // namespace millrace

#endif  // MILLRACE_COMMON_USAGE_ERROR_H_
