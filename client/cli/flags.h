// FlagSet reads the flags of one command: --name=value, --name value (of a
// value that does not begin with --), and --name alone for a bool. absl's flags
// are global to a program; a command that refuses the flags of another needs
// its own.
//
// Not thread-safe. Targets are not owned and hold the defaults.
//
//   FlagSet flags("audit", "Proves that an epoch is delivered exactly once.");
//   flags.Add("endpoint", &endpoint, "HOST:PORT[,...]", "the data servers");
//   flags.Add("compare", &compare, "N", "steps that are compared");
//   flags.Needs("compare", {"endpoint"});
//   MR_RETURN_IF_ERROR(flags.Parse(arguments));

#ifndef MILLRACE_CLIENT_CLI_FLAGS_H_
#define MILLRACE_CLIENT_CLI_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/flag_needs.h"

namespace millrace {

class FlagSet {
 public:
  // An optional one has no value unless the flag is given.
  using Target = std::variant<std::string*, uint64_t*, std::optional<uint64_t>*,
                              uint32_t*, double*, bool*, absl::Duration*,
                              std::optional<absl::Duration>*>;

  FlagSet(std::string command, std::string summary)
      : command_(std::move(command)), summary_(std::move(summary)) {}

  // `value` is what the help calls the value: "HOST:PORT", "N". Durations are
  // written 5s, 300ms, or as a number of seconds.
  void Add(std::string name, Target target, std::string value,
           std::string help);

  // `flag` acts only beside one of the others: Parse() refuses it alone.
  void Needs(std::string flag, std::vector<std::string> one_of);

  // InvalidArgument names the flag and what is wrong with it: unknown, given
  // twice, without a value, a value that does not parse, without effect.
  absl::Status Parse(absl::Span<const std::string> arguments);

  // Whether Parse() met the flag; a switch that is set to false counts as not
  // given.
  bool Given(absl::string_view name) const;

  // --help was given.
  bool help_wanted() const { return help_wanted_; }
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    Target target;
    std::string value;
    std::string help;
    std::string default_text;
    bool seen = false;
  };

  const std::string command_;
  const std::string summary_;
  std::vector<Flag> flags_;
  std::vector<FlagNeed> needs_;
  bool help_wanted_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_FLAGS_H_
