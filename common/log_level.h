// The words of log levels: "debug", "info", "warning" and "error".
//
// The environment sets the level of a process: MILLRACE_LOG_LEVEL is "debug" or
// "info" (the default). UseLogLevelOfEnvironment() is the only reader of the
// variable. Who starts logging calls it: a program of Millrace in main(), which
// refuses another value, and the client when a loader opens, for a program that
// embeds it; there another value counts as "info".
//
// Thread-safe while no thread changes the environment.
//
//   const absl::Status level = UseLogLevelOfEnvironment();
//   if (!level.ok()) return Fail(level);

#ifndef MILLRACE_COMMON_LOG_LEVEL_H_
#define MILLRACE_COMMON_LOG_LEVEL_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/logging.h"

namespace millrace {

// InvalidArgument: `word` is no level.
absl::StatusOr<LogSeverity> ParseLogLevel(absl::string_view word);

// The first call in the process sets the severity of logging.h; a later call
// changes nothing, so that SetMinLogSeverity() holds after it. InvalidArgument,
// with the mark of UsageError(), at every call: the variable has another value,
// and nothing is set. Unset and empty are "info".
absl::Status UseLogLevelOfEnvironment();

}  // namespace millrace

#endif  // MILLRACE_COMMON_LOG_LEVEL_H_
