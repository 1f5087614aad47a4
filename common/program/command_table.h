// CommandTable runs a program that consists of subcommands: it selects the
// subcommand that the command line names, and handles --help, --version and
// unknown names.
//
// Not thread-safe; used once, in main.
//
//   return CommandTable({.program = "millrace", .commands = {...}})
//       .Run(arguments, std::cout);

#ifndef MILLRACE_COMMON_PROGRAM_COMMAND_TABLE_H_
#define MILLRACE_COMMON_PROGRAM_COMMAND_TABLE_H_

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace millrace::program {

class CommandTable {
 public:
  // `arguments` are those after the name of the command.
  using Command = std::function<int(const std::vector<std::string>& arguments)>;

  struct Row {
    std::string name;
    std::string summary;  // what the command does, for the help
    Command run;          // returns the exit code
  };

  struct Options {
    std::string program;  // "millrace-data"
    std::string summary;  // what the program is for
    std::string version;
    std::vector<Row> commands;
    std::vector<std::string> examples;  // command lines
  };

  explicit CommandTable(Options options) : options_(std::move(options)) {}

  // Writes the help or the version to `out`, mistakes to standard error; the
  // exit code (exit_code.h).
  int Run(const std::vector<std::string>& arguments, std::ostream& out) const;

 private:
  std::string Help() const;

  const Options options_;
};

}  // namespace millrace::program

#endif  // MILLRACE_COMMON_PROGRAM_COMMAND_TABLE_H_
