// The commands of `millrace`. Each parses its flags, does its work, prints the
// result to standard output and returns OK or an error.
//
// An error with the mark of UsageError() is a mistake on the command line: the
// exit code is 2. For other errors it is 1.

#ifndef MILLRACE_CLIENT_CLI_COMMANDS_H_
#define MILLRACE_CLIENT_CLI_COMMANDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/usage_error.h"

namespace millrace::cli {

absl::Status RunStatus(absl::Span<const std::string> arguments);
absl::Status RunBench(absl::Span<const std::string> arguments);
absl::Status RunAudit(absl::Span<const std::string> arguments);
absl::Status RunReplay(absl::Span<const std::string> arguments);
absl::Status RunDoctor(absl::Span<const std::string> arguments);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_COMMANDS_H_
