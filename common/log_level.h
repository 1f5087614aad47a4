// The log level that the environment asks for: MILLRACE_LOG_LEVEL is "debug" or
// "info" (the default). common/logging.h takes every other value for "info", so
// a program of Millrace refuses it when it starts. A program that embeds the
// client does not call this function: there a wrong value counts as "info".
//
// Thread-safe while no thread changes the environment.
//
//   if (absl::Status level = CheckLogLevel(); !level.ok()) return Fail(level);

#ifndef MILLRACE_COMMON_LOG_LEVEL_H_
#define MILLRACE_COMMON_LOG_LEVEL_H_

#include "absl/status/status.h"

namespace millrace {

// InvalidArgument, with the mark of UsageError(): the variable has another
// value. Unset and empty are "info".
absl::Status CheckLogLevel();

}  // namespace millrace

#endif  // MILLRACE_COMMON_LOG_LEVEL_H_
