// Exit codes of all programs (docs/operations.md, "Exit codes").
//
//   return ExitCode(status);

#ifndef MILLRACE_COMMON_PROGRAM_EXIT_CODE_H_
#define MILLRACE_COMMON_PROGRAM_EXIT_CODE_H_

#include "absl/status/status.h"
#include "common/usage_error.h"

namespace millrace::program {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
// A mistake on the command line or in a file that it names: starting the
// program again does not help.
inline constexpr int kExitUsage = 2;

// kExitUsage of what UsageError() has marked.
inline int ExitCode(const absl::Status& status) {
  if (status.ok()) return kExitOk;
  return IsUsageError(status) ? kExitUsage : kExitFailed;
}

}  // namespace millrace::program

#endif  // MILLRACE_COMMON_PROGRAM_EXIT_CODE_H_
