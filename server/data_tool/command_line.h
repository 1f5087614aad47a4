// The command line of a subcommand: named flags and operands. A small parser
// of our own, because each subcommand has its own flags and its own help.
//
// Not thread-safe; used once, in main.
//
//   CommandLine line("pack", "Packs a data set.", "");
//   std::string input;
//   line.Add("input", "DIR", "folder to read", &input);
//   MR_RETURN_IF_ERROR(line.Parse(args));

#ifndef MILLRACE_SERVER_DATA_TOOL_COMMAND_LINE_H_
#define MILLRACE_SERVER_DATA_TOOL_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/flag_needs.h"

namespace millrace {

class CommandLine {
 public:
  // `operands` names what stands after the flags ("URI"); empty: nothing may.
  CommandLine(std::string command, std::string summary, std::string operands);

  // Each points at a variable that holds the default.
  void Add(std::string name, std::string value_name, std::string help,
           std::string* value);
  void Add(std::string name, std::string value_name, std::string help,
           int64_t* value);
  void Add(std::string name, std::string help, bool* value);
  // A switch that may have a value: --name stands for --name=`bare`.
  void AddOptional(std::string name, std::string value_name, std::string help,
                   std::string bare, std::string* value);
  // May be given several times.
  void Add(std::string name, std::string value_name, std::string help,
           std::vector<std::string>* values);

  // `flag` acts only beside one of the others: Parse() refuses it alone.
  void Needs(std::string flag, std::vector<std::string> one_of);

  // Takes --name=value and --name value, for a switch --name. A value of the
  // second form does not begin with two dashes. InvalidArgument:
  // an unknown flag, a flag twice (where it may not), a value that does not
  // parse, a flag without effect, more or fewer operands than one where one is
  // wanted; says what is allowed.
  absl::Status Parse(const std::vector<std::string>& args);

  // Whether Parse() met the flag.
  bool Given(absl::string_view name) const;

  const std::vector<std::string>& operands() const { return operands_; }
  bool help_wanted() const { return help_wanted_; }
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string value_name;  // empty: a switch
    std::string help;
    std::function<bool(const std::string&)> set;
    bool repeated = false;
    bool value_optional = false;
    bool seen = false;
  };
  absl::Status Wrong(absl::string_view what) const;

  const std::string command_;
  const std::string summary_;
  const std::string operand_name_;
  std::vector<Flag> flags_;
  std::vector<FlagNeed> needs_;
  std::vector<std::string> operands_;
  bool help_wanted_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_COMMAND_LINE_H_
