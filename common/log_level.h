// The words of log levels: "debug", "info", "warning" and "error".
//
// The environment sets the level of a program: MILLRACE_LOG_LEVEL is "debug" or
// "info" (the default). common/logging.h takes every other value for "info", so
// a program of Millrace refuses it when it starts. A program that embeds the
// client does not call CheckLogLevel(): there a wrong value counts as "info".
//
// Thread-safe while no thread changes the environment.
//
//   if (absl::Status level = CheckLogLevel(); !level.ok()) return Fail(level);

#ifndef MILLRACE_COMMON_LOG_LEVEL_H_
#define MILLRACE_COMMON_LOG_LEVEL_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/logging.h"

namespace millrace {

// InvalidArgument: `word` is no level.
absl::StatusOr<LogSeverity> ParseLogLevel(absl::string_view word);

// InvalidArgument, with the mark of UsageError(): the variable has another
// value. Unset and empty are "info".
absl::Status CheckLogLevel();

}  // namespace millrace

#endif  // MILLRACE_COMMON_LOG_LEVEL_H_
