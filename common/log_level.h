// The log level that the environment asks for: MILLRACE_LOG_LEVEL is "debug" or
// "info" (the default). common/logging.cc reads the variable when the program
// starts, and takes "info" where it has another value. A program of Millrace
// refuses such a value; a program that embeds the client logs at "info".
//
// Thread-safe while no thread changes the environment.
//
//   const absl::Status level = LogLevelOfEnvironment().status();
//   if (!level.ok()) return Fail(level);

#ifndef MILLRACE_COMMON_LOG_LEVEL_H_
#define MILLRACE_COMMON_LOG_LEVEL_H_

#include "absl/status/statusor.h"
#include "common/logging.h"

namespace millrace {

// INFO where the variable is unset or empty. InvalidArgument, with the mark of
// UsageError(): the variable has another value.
absl::StatusOr<LogSeverity> LogLevelOfEnvironment();

}  // namespace millrace

#endif  // MILLRACE_COMMON_LOG_LEVEL_H_
