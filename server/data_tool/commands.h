// The subcommands of millrace-data. Each takes its arguments, writes its
// results to `out` and what a person should know besides to standard error.
//
//   return ExitCode(RunPack(args, std::cout));

#ifndef MILLRACE_SERVER_DATA_TOOL_COMMANDS_H_
#define MILLRACE_SERVER_DATA_TOOL_COMMANDS_H_

#include <ostream>
#include <string>
#include <vector>

namespace millrace {

// Exit codes of the program.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

using Args = std::vector<std::string>;

// `args` begins with the subcommand. Errors go to standard error, a sentence
// each; the result is the exit code.
int RunDataTool(const Args& args, std::ostream& out);

int RunPack(const Args& args, std::ostream& out);
int RunInspect(const Args& args, std::ostream& out);
int RunVerify(const Args& args, std::ostream& out);
int RunCheck(const Args& args, std::ostream& out);
int RunPreview(const Args& args, std::ostream& out);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_COMMANDS_H_
