#include "common/program/flag_set.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/byte_size.h"
#include "common/flag_needs.h"
#include "common/program/help_text.h"
#include "common/program/nearest_word.h"
#include "common/status_macros.h"
#include "common/usage_error.h"

namespace millrace::program {
namespace {

// Libraries count in nanoseconds, and fail beyond some centuries.
constexpr absl::Duration kLongest = absl::Hours(24 * 365);

bool LooksLikeFlag(absl::string_view word) {
  return absl::StartsWith(word, "--") ||
         (word.size() > 1 && word[0] == '-' && absl::ascii_isalpha(word[1]));
}

template <typename... Words>
absl::Status Bad(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(words...));
}

// "drop, pad or partial".
std::string Alternatives(const std::vector<absl::string_view>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    absl::StrAppend(&text,
                    i == 0                  ? ""
                    : i + 1 == words.size() ? " or "
                                            : ", ",
                    words[i]);
  }
  return text;
}

// What is wrong with `text`, which is no T.
template <typename T>
absl::Status BadNumber(absl::string_view text) {
  const bool negative = absl::ConsumePrefix(&text, "-");
  const bool whole = !text.empty() &&
                     std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (whole && !negative) {
    return Bad("expected a whole number of at most ",
               std::numeric_limits<T>::max());
  }
  if (std::is_unsigned_v<T>) return Bad("expected a whole number from 0");
  return whole ? Bad("expected a whole number of at least ",
                     std::numeric_limits<T>::min())
               : Bad("expected a whole number");
}

// Puts a flag's value into the target. Errors say what was expected.
struct Assign {
  absl::string_view text;
  bool may_be_zero;

  absl::Status operator()(std::string* value) const {
    *value = std::string(text);
    return absl::OkStatus();
  }
  absl::Status operator()(std::vector<std::string>* values) const {
    values->emplace_back(text);
    return absl::OkStatus();
  }
  absl::Status operator()(bool* value) const {
    return absl::SimpleAtob(text, value) ? absl::OkStatus()
                                         : Bad("expected true or false");
  }
  absl::Status operator()(int64_t* value) const {
    return absl::SimpleAtoi(text, value) ? absl::OkStatus()
                                         : BadNumber<int64_t>(text);
  }
  template <typename T, typename = std::enable_if_t<std::is_unsigned_v<T>>>
  absl::Status operator()(T* value) const {
    return absl::SimpleAtoi(text, value) ? absl::OkStatus()
                                         : BadNumber<T>(text);
  }
  absl::Status operator()(double* value) const {
    return absl::SimpleAtod(text, value) && std::isfinite(*value)
               ? absl::OkStatus()
               : Bad("expected a number, for example 0.05");
  }
  absl::Status operator()(absl::Duration* value) const {
    return FlagSet::ParseTime(text, may_be_zero, value);
  }
  absl::Status operator()(const FlagSet::Bytes& bytes) const {
    const absl::StatusOr<uint64_t> parsed = ParseByteSize(text);
    if (!parsed.ok() || *parsed == 0) {
      return Bad("expected a size above 0, for example 512MiB or 2GiB");
    }
    *bytes.value = *parsed;
    return absl::OkStatus();
  }
  template <typename T>
  absl::Status operator()(std::optional<T>* value) const {
    if (text.empty()) {
      value->reset();
      return absl::OkStatus();
    }
    T parsed{};
    MR_RETURN_IF_ERROR((*this)(&parsed));
    *value = std::move(parsed);
    return absl::OkStatus();
  }
  absl::Status operator()(const FlagSet::Parser& parser) const {
    return parser(text);
  }
};

// What the help shows of a default; empty: nothing.
struct DefaultText {
  std::string operator()(std::string* value) const { return *value; }
  std::string operator()(bool* value) const { return *value ? "true" : ""; }
  std::string operator()(absl::Duration* value) const {
    return absl::FormatDuration(*value);
  }
  std::string operator()(const FlagSet::Bytes& bytes) const {
    return FormatByteSize(*bytes.value);
  }
  template <typename T>
  std::string operator()(const T& target) const {
    if constexpr (std::is_pointer_v<T> &&
                  std::is_arithmetic_v<std::remove_pointer_t<T>>) {
      return absl::StrCat(*target);
    }
    return "";
  }
};

}  // namespace

absl::Status FlagSet::ParseTime(absl::string_view text, bool may_be_zero,
                                absl::Duration* time) {
  const absl::Duration zero = absl::ZeroDuration();
  double seconds = 0;
  bool parsed = true;
  if (absl::SimpleAtod(text, &seconds)) {
    parsed = !std::isnan(seconds);
    *time = absl::Seconds(parsed ? seconds : 0);
  } else {
    parsed = absl::ParseDuration(text, time);
  }
  if (!parsed || *time < zero || (*time == zero && !may_be_zero)) {
    return Bad(may_be_zero
                   ? "expected a time, for example 5s or 300ms, or 0"
                   : "expected a time above 0, for example 5s or 300ms");
  }
  if (*time > kLongest)
    return Bad("expected a time of at most one year (8760h)");
  return absl::OkStatus();
}

absl::Status FlagSet::Flag::Set(absl::string_view text) const {
  if (choice_) MR_RETURN_IF_ERROR(CheckChoice(text, value_));
  return ParseValue(text, target_, may_be_zero_);
}

absl::Status FlagSet::ParseValue(absl::string_view text, const Target& target,
                                 bool may_be_zero) {
  return std::visit(Assign{text, may_be_zero}, target);
}

absl::Status FlagSet::CheckChoice(absl::string_view text,
                                  absl::string_view words) {
  const std::vector<absl::string_view> all = absl::StrSplit(words, '|');
  if (std::find(all.begin(), all.end(), text) != all.end()) {
    return absl::OkStatus();
  }
  return Bad("expected ", Alternatives(all));
}

FlagSet::Flag& FlagSet::Add(std::string name, Target target, std::string value,
                            std::string help) {
  Flag& flag = flags_.emplace_back();
  flag.name_ = std::move(name);
  flag.target_ = std::move(target);
  flag.value_ = std::move(value);
  flag.help_ = std::move(help);
  flag.group_ = group_;
  flag.default_text_ = std::visit(DefaultText(), flag.target_);
  if (auto* const* text = std::get_if<std::string*>(&flag.target_)) {
    flag.off_ = **text;
  }
  flag.repeatable_ =
      std::holds_alternative<std::vector<std::string>*>(flag.target_);
  return flag;
}

const FlagSet::Flag* FlagSet::Find(absl::string_view name) const {
  const auto flag =
      std::find_if(flags_.begin(), flags_.end(),
                   [name](const Flag& f) { return f.name_ == name; });
  return flag == flags_.end() ? nullptr : &*flag;
}

bool FlagSet::Given(absl::string_view name) const {
  if (given_.find(name) == given_.end()) return false;
  if (turned_off_.find(name) != turned_off_.end()) return false;
  const Flag& flag = *Find(name);
  return !flag.is_bool() || *std::get<bool*>(flag.target_);
}

std::string FlagSet::SeeHelp() const {
  return absl::StrCat("; `", options_.command, " --help` lists the flags");
}

absl::Status FlagSet::Unknown(absl::string_view name) const {
  std::vector<absl::string_view> names;
  for (const Flag& flag : flags_) names.push_back(flag.name_);
  const std::string near = DidYouMean(name, names, "--");
  return Bad("unknown flag --", name, near.empty() ? SeeHelp() : near);
}

absl::Status FlagSet::Parse(absl::Span<const std::string> arguments) {
  return UsageError(ParseAll(arguments));
}

absl::Status FlagSet::ParseAll(absl::Span<const std::string> arguments) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--" && !options_.argument.empty()) {
      rest.insert(rest.end(), arguments.begin() + i + 1, arguments.end());
      break;
    }
    if (!LooksLikeFlag(arguments[i]) || arguments[i] == "--") {
      rest.push_back(arguments[i]);
      continue;
    }
    MR_RETURN_IF_ERROR(ParseFlag(arguments, &i));
    if (help_wanted_) return absl::OkStatus();
  }
  MR_RETURN_IF_ERROR(CheckArguments(rest));
  return CheckNeeds();
}

// The flag at `*at`, which is moved to the value where that is a word of its
// own.
absl::Status FlagSet::ParseFlag(absl::Span<const std::string> arguments,
                                size_t* at) {
  absl::string_view name = arguments[*at];
  absl::ConsumePrefix(&name, "-");
  absl::ConsumePrefix(&name, "-");
  std::optional<absl::string_view> text;
  if (const size_t equals = name.find('='); equals != name.npos) {
    text = name.substr(equals + 1);
    name = name.substr(0, equals);
  }
  for (const auto& [former, now] : renamed_) {
    if (name != former) continue;
    std::fprintf(stderr, "%s: flag --%s is now called --%s\n",
                 options_.command.c_str(), former.c_str(), now.c_str());
    name = now;
  }
  if (name == "help" || name == "h") {
    if (text.has_value()) return Bad("flag --help takes no value");
    help_wanted_ = true;
    return absl::OkStatus();
  }
  const Flag* found = Find(name);
  if (found == nullptr && !text.has_value()) {
    absl::string_view positive = name;
    found = absl::ConsumePrefix(&positive, "no") ? Find(positive) : nullptr;
    if (found != nullptr && !found->is_switch()) found = nullptr;
    text = "false";
  }
  if (found == nullptr) return Unknown(name);
  const Flag& flag = *found;
  if (!given_.insert(flag.name_).second && !flag.repeatable_ &&
      !options_.last_value_holds) {
    return Bad("flag --", flag.name_, " is given twice");
  }
  if (!text.has_value() && flag.is_bool()) text = "true";
  if (flag.bare_.has_value()) {
    turned_off_.erase(flag.name_);
    if (!text.has_value() || *text == "true") text = *flag.bare_;
    if (*text == "false") {
      turned_off_.insert(flag.name_);
      return std::visit(Assign{flag.off_, flag.may_be_zero_}, flag.target_);
    }
  }
  if (!text.has_value()) {
    if (*at + 1 == arguments.size()) {
      return Bad("flag --", name, " needs a value: --", name, "=", flag.value_);
    }
    text = arguments[++*at];
    // `--dataset --json`: the value was forgotten.
    if (LooksLikeFlag(*text)) {
      return Bad("flag --", name, " needs a value, and `", *text,
                 "` looks like another flag; if it is the value, write --",
                 name, "=", *text);
    }
  }
  // Often a shell variable that is not set: what the flag asks for would be
  // dropped without a word.
  const absl::Status set =
      text->empty() ? Bad("expected a value") : flag.Set(*text);
  if (set.ok()) return set;
  return Bad("flag --", flag.name_, "=", *text, ": ", set.message());
}

absl::Status FlagSet::CheckArguments(absl::Span<const std::string> arguments) {
  const bool takes_one = !options_.argument.empty();
  if (arguments.size() > (takes_one ? 1 : 0)) {
    return Bad("unexpected argument `", arguments[takes_one ? 1 : 0], "`",
               takes_one
                   ? absl::StrCat(": one ", options_.argument, " is expected")
               : options_.no_argument_hint.empty()
                   ? ""
                   : absl::StrCat("; ", options_.no_argument_hint),
               SeeHelp());
  }
  if (takes_one && arguments.empty()) {
    return Bad(options_.argument, " is missing", SeeHelp());
  }
  if (takes_one) argument_ = arguments[0];
  return absl::OkStatus();
}

absl::Status FlagSet::CheckNeeds() const {
  std::vector<FlagNeed> needs;
  for (const Flag& flag : flags_) {
    for (const std::vector<std::string>& one_of : flag.needs_) {
      needs.push_back({flag.name_, one_of});
    }
  }
  return CheckFlagNeeds(needs,
                        [this](absl::string_view name) { return Given(name); });
}

std::string FlagSet::Help() const {
  std::string text = absl::StrCat("usage: ", options_.command, " [flags]",
                                  options_.argument.empty() ? "" : " ",
                                  options_.argument, "\n\n");
  AppendWrapped(options_.summary, 0, 0, &text);
  if (!options_.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : options_.examples) {
    absl::StrAppend(&text, "  ", example, "\n");
  }
  std::vector<absl::string_view> groups;
  for (const Flag& flag : flags_) {
    if (std::find(groups.begin(), groups.end(), flag.group_) == groups.end()) {
      groups.push_back(flag.group_);
    }
  }
  for (const absl::string_view group : groups) {
    absl::StrAppend(&text, "\n", group, ":\n");
    for (const Flag& flag : flags_) {
      if (flag.group_ != group) continue;
      std::string help = flag.help_;
      if (!flag.default_text_.empty()) {
        const bool words = absl::StrContains(flag.default_text_, ' ');
        absl::StrAppend(&help, words ? " (default: " : " (default ",
                        flag.default_text_);
        if (flag.is_bool()) {
          absl::StrAppend(&help, "; --no", flag.name_, " turns it off");
        }
        help += ')';
      }
      const std::string value =
          flag.value_.empty() ? "" : absl::StrCat("=", flag.value_);
      AppendHelpRow(
          absl::StrCat(
              "--", flag.name_,
              flag.bare_.has_value() ? absl::StrCat("[", value, "]") : value),
          help + ".", kFlagColumn, &text);
    }
  }
  text += "\nHelp:\n";
  AppendHelpRow("--help", "Print this text and exit; -h does the same.",
                kFlagColumn, &text);
  if (std::any_of(flags_.begin(), flags_.end(),
                  [](const Flag& flag) { return flag.value_ == "TIME"; })) {
    text += '\n';
    AppendWrapped(
        "TIME has a unit, such as 5s, 300ms or 2m; without one: seconds.", 0, 0,
        &text);
  }
  if (!options_.notes.empty()) {
    text += '\n';
    AppendWrapped(options_.notes, 0, 0, &text);
  }
  return text;
}

}  // namespace millrace::program
