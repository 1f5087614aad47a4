// The subcommands of millrace-data. Each takes its arguments, writes its
// results to `out`, and errors and warnings to standard error.
//
//   return RunDataTool(args, std::cout);

#ifndef MILLRACE_SERVER_DATA_TOOL_COMMANDS_H_
#define MILLRACE_SERVER_DATA_TOOL_COMMANDS_H_

#include <ostream>
#include <string>
#include <vector>

#include "common/program/exit_code.h"

namespace millrace::data_tool {

// `args` begins with the subcommand. Errors go to standard error, a sentence
// each; the result is the exit code (common/program/exit_code.h).
int RunDataTool(const std::vector<std::string>& args, std::ostream& out);

int RunPack(const std::vector<std::string>& args, std::ostream& out);
int RunIndex(const std::vector<std::string>& args, std::ostream& out);
int RunHead(const std::vector<std::string>& args, std::ostream& out);
int RunDiff(const std::vector<std::string>& args, std::ostream& out);
int RunInspect(const std::vector<std::string>& args, std::ostream& out);
int RunVerify(const std::vector<std::string>& args, std::ostream& out);
int RunCheck(const std::vector<std::string>& args, std::ostream& out);
int RunPreview(const std::vector<std::string>& args, std::ostream& out);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_COMMANDS_H_
