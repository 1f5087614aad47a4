// What `millrace bench --sweep` runs: every combination of some knobs' values.
//
//   threads=1,2,4;window=4,16,64
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_CLIENT_CLI_BENCH_SWEEP_H_
#define MILLRACE_CLIENT_CLI_BENCH_SWEEP_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

inline constexpr size_t kMaxSweepSettings = 256;

struct SweepKnob {
  std::string name;
  std::vector<std::string> values;
};

// One combination, in the order of the knobs. Empty: what the flags say.
struct BenchSetting {
  std::vector<std::pair<std::string, std::string>> values;

  std::string Name() const;  // "threads=2 window=16"; "as given" when empty
  // Null: the setting does not say.
  const std::string* Find(absl::string_view knob) const;
};

// InvalidArgument: names the knob, what is wrong with it and what can be.
absl::StatusOr<std::vector<SweepKnob>> ParseSweep(absl::string_view text);

// The first knob changes slowest.
std::vector<BenchSetting> Combine(const std::vector<SweepKnob>& knobs);

// A flag of the server: only a server that the bench starts itself can be
// given another value.
bool IsServerKnob(absl::string_view name);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_BENCH_SWEEP_H_
