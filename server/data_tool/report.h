// How the data tool tells errors: one sentence on standard error.

#ifndef MILLRACE_SERVER_DATA_TOOL_REPORT_H_
#define MILLRACE_SERVER_DATA_TOOL_REPORT_H_

#include <ostream>

#include "absl/status/status.h"
#include "server/data_tool/command_line.h"

namespace millrace {

// Prints "millrace-data COMMAND: MESSAGE" unless `status` is OK; the exit code.
int Report(absl::string_view command, const absl::Status& status);

// Parses, and answers --help. False: leave with *exit_code.
bool ParseOrLeave(CommandLine& line, const std::vector<std::string>& args,
                  absl::string_view command, std::ostream& out, int* exit_code);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_REPORT_H_
