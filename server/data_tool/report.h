// How the data tool tells errors and warnings: one sentence on standard error.

#ifndef MILLRACE_SERVER_DATA_TOOL_REPORT_H_
#define MILLRACE_SERVER_DATA_TOOL_REPORT_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/data_tool/command_line.h"

namespace millrace {

// Prints "millrace-data COMMAND: MESSAGE" unless `status` is OK; the exit code:
// kExitUsage of what UsageError() has marked.
int Report(absl::string_view command, const absl::Status& status);

// Prints "millrace-data COMMAND: warning: SENTENCE" for each.
void Warn(absl::string_view command, const std::vector<std::string>& sentences);

// Parses, and answers --help. False: leave with *exit_code.
bool ParseOrLeave(CommandLine& line, const std::vector<std::string>& args,
                  absl::string_view command, std::ostream& out, int* exit_code);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_REPORT_H_
