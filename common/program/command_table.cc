#include "common/program/command_table.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/program/exit_code.h"
#include "common/program/help_text.h"
#include "common/program/nearest_word.h"

namespace millrace::program {

std::string CommandTable::Help() const {
  std::string text =
      absl::StrCat("usage: ", options_.program, " COMMAND [flags]\n\n");
  AppendWrapped(options_.summary, 0, 0, &text);
  text += "\nCommands:\n";
  size_t widest = 0;
  for (const Row& row : options_.commands) {
    widest = std::max(widest, row.name.size());
  }
  for (const Row& row : options_.commands) {
    AppendHelpRow(row.name, row.summary, widest + 6, &text);
  }
  if (!options_.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : options_.examples) {
    absl::StrAppend(&text, "  ", example, "\n");
  }
  text += '\n';
  AppendWrapped(
      absl::StrCat("`", options_.program,
                   " COMMAND --help` lists the flags of a command, `",
                   options_.program, " --version` prints the release."),
      0, 0, &text);
  return text;
}

int CommandTable::Run(const std::vector<std::string>& arguments,
                      std::ostream& out) const {
  if (arguments.empty()) {
    std::cerr << Help();
    return kExitUsage;
  }
  const std::string& name = arguments[0];
  std::vector<absl::string_view> names;
  for (const Row& row : options_.commands) {
    if (row.name == name) {
      return row.run({arguments.begin() + 1, arguments.end()});
    }
    names.push_back(row.name);
  }
  const bool version = name == "--version";
  const bool help = name == "--help" || name == "-h" || name == "help";
  if ((version || help) && arguments.size() == 1) {
    out << (version
                ? absl::StrCat(options_.program, " ", options_.version, "\n")
                : Help());
    return kExitOk;
  }
  if (version || help) {
    std::cerr << options_.program << ": unexpected argument `" << arguments[1]
              << "` after " << name << "; `" << options_.program
              << " COMMAND --help` lists the flags of a command" << std::endl;
    return kExitUsage;
  }
  const std::string near = DidYouMean(name, names, "");
  std::cerr << options_.program << ": unknown command `" << name << "`" << near
            << (near.empty() ? absl::StrCat("; `", options_.program,
                                            " --help` lists the commands")
                             : "")
            << std::endl;
  return kExitUsage;
}

}  // namespace millrace::program
