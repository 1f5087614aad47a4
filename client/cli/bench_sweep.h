// The settings of `millrace bench --sweep`: every combination of the values of
// some knobs.
//
// It runs nothing. Pure functions, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(auto knobs, ParseSweep("threads=1,2;window=4,16"));
//   for (const BenchSetting& setting : Combine(knobs)) ...

#ifndef MILLRACE_CLIENT_CLI_BENCH_SWEEP_H_
#define MILLRACE_CLIENT_CLI_BENCH_SWEEP_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::cli {

inline constexpr size_t kMaxSweepSettings = 256;

struct SweepKnob {
  std::string name;
  std::vector<std::string> values;
};

// One combination, in the order of the knobs. Empty: the values of the flags.
struct BenchSetting {
  std::vector<std::pair<std::string, std::string>> values;

  std::string Name() const;  // "threads=2 window=16"; "as given" when empty
  // Null: the setting has no such knob.
  const std::string* Find(absl::string_view knob) const;
};

// InvalidArgument: names the knob, the mistake and what is allowed.
absl::StatusOr<std::vector<SweepKnob>> ParseSweep(absl::string_view text);

// The first knob changes slowest.
std::vector<BenchSetting> Combine(const std::vector<SweepKnob>& knobs);

// A flag of the server, which only a server that bench starts itself can
// change.
bool IsServerKnob(absl::string_view name);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_BENCH_SWEEP_H_
