#include "server/data_tool/command_line.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace millrace {

CommandLine::CommandLine(std::string command, std::string summary,
                         std::string operands)
    : command_(std::move(command)),
      summary_(std::move(summary)),
      operand_name_(std::move(operands)) {}

void CommandLine::Add(std::string name, std::string value_name,
                      std::string help, std::string* value) {
  flags_.push_back({.name = std::move(name),
                    .value_name = std::move(value_name),
                    .help = std::move(help),
                    .set = [value](const std::string& text) {
                      *value = text;
                      return !text.empty();
                    }});
}

void CommandLine::Add(std::string name, std::string value_name,
                      std::string help, int64_t* value) {
  flags_.push_back({.name = std::move(name),
                    .value_name = std::move(value_name),
                    .help = std::move(help),
                    .set = [value](const std::string& text) {
                      return absl::SimpleAtoi(text, value);
                    }});
}

void CommandLine::Add(std::string name, std::string help, bool* value) {
  flags_.push_back({.name = std::move(name),
                    .value_name = "",
                    .help = std::move(help),
                    .set = [value](const std::string& text) {
                      return absl::SimpleAtob(text, value);
                    }});
}

void CommandLine::Add(std::string name, std::string value_name,
                      std::string help, std::vector<std::string>* values) {
  flags_.push_back({.name = std::move(name),
                    .value_name = std::move(value_name),
                    .help = std::move(help),
                    .set =
                        [values](const std::string& text) {
                          values->push_back(text);
                          return !text.empty();
                        },
                    .repeated = true});
}

void CommandLine::AddOptional(std::string name, std::string value_name,
                              std::string help, std::string bare,
                              std::string* value) {
  flags_.push_back({.name = std::move(name),
                    .value_name = std::move(value_name),
                    .help = std::move(help),
                    .set =
                        [value, bare = std::move(bare)](const std::string& t) {
                          *value = t == "true" ? bare : t;
                          return !t.empty();
                        },
                    .value_optional = true});
}

void CommandLine::Needs(std::string flag, std::vector<std::string> one_of) {
  needs_.push_back({std::move(flag), std::move(one_of)});
}

bool CommandLine::Given(absl::string_view name) const {
  return std::any_of(flags_.begin(), flags_.end(), [name](const Flag& flag) {
    return flag.name == name && flag.seen;
  });
}

absl::Status CommandLine::Wrong(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(
      what, "; `millrace-data ", command_, " --help` lists the flags"));
}

absl::Status CommandLine::Parse(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--help" || arg == "-h") {
      help_wanted_ = true;
      return absl::OkStatus();
    }
    if (!absl::StartsWith(arg, "-") || arg == "-") {
      operands_.push_back(arg);
      continue;
    }
    const size_t equals = arg.find('=');
    const std::string written = arg.substr(0, equals);
    const std::string name =
        written.substr(absl::StartsWith(written, "--") ? 2 : 1);
    const auto flag =
        std::find_if(flags_.begin(), flags_.end(),
                     [&name](const Flag& f) { return f.name == name; });
    if (flag == flags_.end()) {
      return Wrong(absl::StrCat("unknown flag ", written));
    }
    if (flag->seen && !flag->repeated)
      return Wrong(absl::StrCat(written, " is given twice"));
    flag->seen = true;
    std::string value = "true";
    if (equals != arg.npos) {
      value = arg.substr(equals + 1);
    } else if (!flag->value_name.empty() && !flag->value_optional) {
      if (i + 1 == args.size()) {
        return Wrong(absl::StrCat(written, " needs a value: ", written, "=",
                                  flag->value_name));
      }
      // More likely the next flag than a value.
      if (absl::StartsWith(args[i + 1], "--")) {
        return Wrong(absl::StrCat(written, " needs a value: ", written, "=",
                                  flag->value_name,
                                  "; one that begins with -- is written ",
                                  written, "=", args[i + 1]));
      }
      value = args[++i];
    }
    if (!flag->set(value)) {
      return Wrong(absl::StrCat(
          "'", value, "' is no value of ", written,
          flag->value_name.empty()
              ? absl::StrCat("; write ", written, " or leave it out")
              : absl::StrCat("=", flag->value_name)));
    }
  }
  if (operand_name_.empty() && !operands_.empty()) {
    return Wrong(absl::StrCat("'", operands_[0], "' is no flag"));
  }
  if (!operand_name_.empty() && operands_.size() != 1) {
    return Wrong(operands_.empty()
                     ? absl::StrCat(operand_name_, " is missing")
                     : absl::StrCat("'", operands_[1],
                                    "' is one too many: one ", operand_name_,
                                    " is expected"));
  }
  return CheckFlagNeeds(needs_,
                        [this](absl::string_view name) { return Given(name); });
}

std::string CommandLine::Help() const {
  std::string text =
      absl::StrCat("usage: millrace-data ", command_, " [flags]",
                   operand_name_.empty() ? "" : " ", operand_name_, "\n\n",
                   summary_, "\n\nflags:\n");
  for (const Flag& flag : flags_) {
    const std::string value =
        flag.value_name.empty() ? "" : absl::StrCat("=", flag.value_name);
    absl::StrAppend(&text, "  --", flag.name,
                    flag.value_optional ? absl::StrCat("[", value, "]") : value,
                    "\n      ", flag.help, "\n");
  }
  absl::StrAppend(&text, "  --help\n      print this\n");
  return text;
}

}  // namespace millrace
