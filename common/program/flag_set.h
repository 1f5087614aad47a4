// FlagSet parses the command line of a program or of a subcommand and writes
// its help. All programs of Millrace use it, so that one form of flags, of
// mistakes and of help is common to all of them.
//
// Forms of a flag: --name=value, and --name value where the value does not look
// like a flag (two dashes, or a dash and a letter). A bool: --name, --noname,
// --name=false. One dash counts as two. --help and -h ask for the help. Only
// after `--` is a word that looks like a flag an argument.
//
// Not thread-safe. Targets are not owned and hold the defaults.
//
//   FlagSet flags({.command = "millrace audit", .summary = "Proves ..."});
//   flags.Group("What to load");
//   flags.Add("endpoint", &endpoint, "HOST:PORT[,...]", "Data servers");
//   flags.Add("compare", &compare, "N", "Steps").Needs({"endpoint"});
//   MR_RETURN_IF_ERROR(flags.Parse(arguments));
//   if (flags.help_wanted()) ... flags.Help() ...

#ifndef MILLRACE_COMMON_PROGRAM_FLAG_SET_H_
#define MILLRACE_COMMON_PROGRAM_FLAG_SET_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace millrace::program {

class FlagSet {
 public:
  // Takes the value of a flag. The message of an error says what was expected:
  // "expected NAME=URI".
  using Parser = std::function<absl::Status(absl::string_view)>;

  // A size as people write it: 512MiB.
  struct Bytes {
    uint64_t* value;
  };

  // Durations are above 0 and at most a year; written 5s, 300ms, or as a number
  // of seconds. An optional has no value unless the flag is given. A vector
  // gets a value each time that its flag is given.
  using Target =
      std::variant<std::string*, bool*, int64_t*, uint32_t*, uint64_t*, double*,
                   absl::Duration*, Bytes, std::vector<std::string>*,
                   std::optional<std::string>*, std::optional<int64_t>*,
                   std::optional<uint32_t>*, std::optional<uint64_t>*,
                   std::optional<double>*, std::optional<absl::Duration>*,
                   Parser>;

  struct Options {
    std::string command;  // as a user types it: "millrace audit"
    std::string summary;  // what the command does, in sentences
    // Name of the argument that the command takes beside flags; empty: none.
    std::string argument;
    std::vector<std::string> examples;  // command lines
    std::string notes;                  // at the end of the help
    // Hint for a user who gives an argument without a flag: how to write it.
    std::string no_argument_hint;
    // A flag that is given again replaces its value. False: it is refused.
    bool last_value_holds = false;
  };

  class Flag {
   public:
    // The flag has an effect only together with one of these: Parse() refuses
    // it alone.
    Flag& Needs(std::vector<std::string> one_of) {
      needs_.push_back(std::move(one_of));
      return *this;
    }
    // May be given several times; of a Parser (a vector always may).
    Flag& Repeatable() {
      repeatable_ = true;
      return *this;
    }
    // The value is one of the words that the help shows: "drop|pad".
    Flag& Choice() {
      choice_ = true;
      return *this;
    }
    // What the help shows as default in place of the target's value.
    Flag& Default(std::string text) {
      default_text_ = std::move(text);
      return *this;
    }
    // For a string: --name without a value and --name=true mean --name=`value`;
    // --noname and --name=false set `off`, or without `off` restore the
    // default.
    Flag& Bare(std::string value, std::string off = "") {
      bare_ = std::move(value);
      if (!off.empty()) off_ = std::move(off);
      return *this;
    }
    // Of a Duration: 0 is a value.
    Flag& MayBeZero() {
      may_be_zero_ = true;
      return *this;
    }

   private:
    friend class FlagSet;

    // Whether --noname turns it off.
    bool is_switch() const { return is_bool() || bare_.has_value(); }
    bool is_bool() const { return std::holds_alternative<bool*>(target_); }
    absl::Status Set(absl::string_view text) const;

    std::string name_;
    Target target_;
    std::string value_;
    std::string help_;
    std::string group_;
    std::string default_text_;
    std::optional<std::string> bare_;
    std::string off_;  // of bare_
    std::vector<std::vector<std::string>> needs_;
    bool repeatable_ = false;
    bool choice_ = false;
    bool may_be_zero_ = false;
  };

  explicit FlagSet(Options options) : options_(std::move(options)) {}
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // Heading of the flags that are added from now on.
  void Group(std::string heading) { group_ = std::move(heading); }

  // `value` is what the help calls the value ("HOST:PORT"); of a bool: "".
  // `help` is a sentence without its full stop; the default is added to it.
  Flag& Add(std::string name, Target target, std::string value,
            std::string help);

  // --`former`, with or without a value, goes on working as --`name`. A line on
  // standard error says that it is renamed.
  void Renamed(std::string former, std::string name) {
    renamed_.emplace_back(std::move(former), std::move(name));
  }

  // InvalidArgument with the mark of UsageError(): names the flag and what is
  // wrong with it (unknown, given twice, without a value or with an empty one,
  // a value that does not parse, without effect), or the argument that is
  // missing or one too many. Stops at --help.
  absl::Status Parse(absl::Span<const std::string> arguments);

  // Whether Parse() met the flag. A bool that is set to false, and a flag with
  // a bare form that is turned off, count as not given.
  bool Given(absl::string_view name) const;

  // What Options::argument stands for; empty when the help is wanted.
  const std::string& argument() const { return argument_; }

  bool help_wanted() const { return help_wanted_; }
  std::string Help() const;

  // Parses `text` as the value of a flag with this target. InvalidArgument says
  // what was expected. For values that come another way than by flags.
  static absl::Status ParseValue(absl::string_view text, const Target& target,
                                 bool may_be_zero = false);
  // "expected drop, pad or partial" unless `text` is one of `words`, which are
  // separated by "|".
  static absl::Status CheckChoice(absl::string_view text,
                                  absl::string_view words);

  // As a Duration is parsed: for a Parser. InvalidArgument says what was
  // expected.
  static absl::Status ParseTime(absl::string_view text, bool may_be_zero,
                                absl::Duration* time);

 private:
  absl::Status ParseAll(absl::Span<const std::string> arguments);
  absl::Status ParseFlag(absl::Span<const std::string> arguments, size_t* at);
  absl::Status CheckArguments(absl::Span<const std::string> arguments);
  absl::Status CheckNeeds() const;
  const Flag* Find(absl::string_view name) const;
  absl::Status Unknown(absl::string_view name) const;
  std::string SeeHelp() const;

  const Options options_;
  std::string group_ = "Flags";
  std::deque<Flag> flags_;
  std::vector<std::pair<std::string, std::string>> renamed_;  // former, name
  std::set<std::string, std::less<>> given_;
  std::set<std::string, std::less<>> turned_off_;  // of Bare(); of given_
  std::string argument_;
  bool help_wanted_ = false;
};

}  // namespace millrace::program

#endif  // MILLRACE_COMMON_PROGRAM_FLAG_SET_H_
