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

using Args = std::vector<std::string>;

// `args` begins with the subcommand. Errors go to standard error, a sentence
// each; the result is the exit code (common/program/exit_code.h).
int RunDataTool(const Args& args, std::ostream& out);

int RunPack(const Args& args, std::ostream& out);
int RunIndex(const Args& args, std::ostream& out);
int RunInspect(const Args& args, std::ostream& out);
int RunVerify(const Args& args, std::ostream& out);
int RunCheck(const Args& args, std::ostream& out);
int RunPreview(const Args& args, std::ostream& out);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_COMMANDS_H_
