#include "client/cli/flags.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

std::string TargetText(const FlagSet::Target& target) {
  return std::visit(
      [](const auto* value) -> std::string {
        using T = std::decay_t<decltype(*value)>;
        if constexpr (std::is_same_v<T, absl::Duration>) {
          return absl::FormatDuration(*value);
        } else if constexpr (std::is_same_v<T, bool> ||
                             std::is_same_v<T, std::optional<uint64_t>> ||
                             std::is_same_v<T, std::optional<absl::Duration>>) {
          return "";
        } else {
          return absl::StrCat(*value);
        }
      },
      target);
}

bool ParseTime(absl::string_view text, absl::Duration* duration) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    if (!std::isfinite(seconds)) return false;
    *duration = absl::Seconds(seconds);
    return true;
  }
  return absl::ParseDuration(text, duration);
}

absl::Status Assign(const FlagSet::Target& target, absl::string_view name,
                    absl::string_view text) {
  const auto bad = [&](absl::string_view expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("flag --", name, "=", text, ": expected ", expected));
  };
  const auto assign_time = [&](absl::Duration* time) {
    return ParseTime(text, time) && *time > absl::ZeroDuration()
               ? absl::OkStatus()
               : bad("a time above 0, as 5s or 300ms");
  };
  if (auto* value = std::get_if<std::string*>(&target)) {
    if (text.empty()) return bad("a value");
    **value = std::string(text);
  } else if (auto* value = std::get_if<uint64_t*>(&target)) {
    if (!absl::SimpleAtoi(text, *value)) return bad("a number from 0");
  } else if (auto* value = std::get_if<std::optional<uint64_t>*>(&target)) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(text, &number)) return bad("a number from 0");
    **value = number;
  } else if (auto* value = std::get_if<uint32_t*>(&target)) {
    if (!absl::SimpleAtoi(text, *value)) return bad("a number from 0");
  } else if (auto* value = std::get_if<double*>(&target)) {
    if (!absl::SimpleAtod(text, *value) || !std::isfinite(**value)) {
      return bad("a number, as 0.05");
    }
  } else if (auto* value = std::get_if<bool*>(&target)) {
    if (!absl::SimpleAtob(text, *value)) return bad("true or false");
  } else if (auto* value = std::get_if<absl::Duration*>(&target)) {
    return assign_time(*value);
  } else if (auto* value =
                 std::get_if<std::optional<absl::Duration>*>(&target)) {
    return assign_time(&(*value)->emplace());
  }
  return absl::OkStatus();
}

}  // namespace

void FlagSet::Add(std::string name, Target target, std::string value,
                  std::string help) {
  std::string default_text = TargetText(target);
  flags_.push_back({std::move(name), target, std::move(value), std::move(help),
                    std::move(default_text)});
}

void FlagSet::Needs(std::string flag, std::vector<std::string> one_of) {
  needs_.push_back({std::move(flag), std::move(one_of)});
}

bool FlagSet::Given(absl::string_view name) const {
  const auto flag =
      std::find_if(flags_.begin(), flags_.end(),
                   [name](const Flag& f) { return f.name == name; });
  if (flag == flags_.end() || !flag->seen) return false;
  const auto* value = std::get_if<bool*>(&flag->target);
  return value == nullptr || **value;
}

absl::Status FlagSet::Parse(absl::Span<const std::string> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      help_wanted_ = true;
      continue;
    }
    if (argument.substr(0, 2) != "--") {
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected argument `", argument, "`; `millrace ",
                       command_, " --help` lists the flags"));
    }
    argument.remove_prefix(2);
    std::optional<absl::string_view> text;
    if (const size_t at = argument.find('='); at != absl::string_view::npos) {
      text = argument.substr(at + 1);
      argument = argument.substr(0, at);
    }
    const auto flag =
        std::find_if(flags_.begin(), flags_.end(),
                     [argument](const Flag& f) { return f.name == argument; });
    if (flag == flags_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag --", argument, "; `millrace ", command_,
                       " --help` lists the flags"));
    }
    if (flag->seen) {
      return absl::InvalidArgumentError(
          absl::StrCat("flag --", argument, " is given twice"));
    }
    flag->seen = true;
    if (!text.has_value()) {
      if (bool** value = std::get_if<bool*>(&flag->target)) {
        **value = true;
        continue;
      }
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("flag --", argument, " needs a value"));
      }
      text = arguments[++i];
      // `--dataset --json`: the value was forgotten.
      if (text->substr(0, 2) == "--") {
        return absl::InvalidArgumentError(absl::StrCat(
            "flag --", argument, " needs a value, and `", *text,
            "` looks like another flag; if it is the value, write --", argument,
            "=", *text));
      }
    }
    MR_RETURN_IF_ERROR(Assign(flag->target, argument, *text));
  }
  if (help_wanted_) return absl::OkStatus();
  return CheckFlagNeeds(needs_,
                        [this](absl::string_view name) { return Given(name); });
}

std::string FlagSet::Help() const {
  std::string text =
      absl::StrCat("millrace ", command_, ": ", summary_, "\n\nFlags:\n");
  std::vector<std::string> names;
  size_t width = 0;
  for (const Flag& flag : flags_) {
    names.push_back(flag.value.empty()
                        ? absl::StrCat("--", flag.name)
                        : absl::StrCat("--", flag.name, "=", flag.value));
    width = std::max(width, names.back().size());
  }
  for (size_t i = 0; i < flags_.size(); ++i) {
    absl::StrAppendFormat(&text, "  %-*s  %s", width, names[i], flags_[i].help);
    // A help that explains the default itself has the last word.
    if (!flags_[i].default_text.empty() &&
        flags_[i].help.find("(default") == std::string::npos) {
      absl::StrAppend(&text, " (default ", flags_[i].default_text, ")");
    }
    text += '\n';
  }
  return text;
}

}  // namespace millrace
