// LineLimit limits the log lines of each place in a source, and counts the
// suppressed lines: for libraries that log a line for each bad byte of a peer.
// It writes nothing itself.
//
// Thread-safe. Places are few: those in the source of the library.
//
//   if (const auto before = limit.Pass(file, line, now)) {
//     Write(text, *before);  // *before: suppressed lines of this place
//   }
//   for (const LineLimit::LeftOut& some : limit.TakeLeftOut(now)) Write(some);

#ifndef MILLRACE_COMMON_LINE_LIMIT_H_
#define MILLRACE_COMMON_LINE_LIMIT_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/mutex.h"

namespace millrace {

class LineLimit {
 public:
  struct Options {
    // Lines that a place may write at once.
    int burst = 5;
    // After `burst` lines a place may write one more line per interval.
    std::chrono::milliseconds interval{10'000};
  };

  // Suppressed lines of a place that were not reported yet.
  struct LeftOut {
    std::string file;
    int line = 0;
    uint64_t lines = 0;
  };

  explicit LineLimit(const Options& options) : options_(options) {}

  // Whether the place may write a line now. If so, the number of its lines
  // that were left out since its last one.
  std::optional<uint64_t> Pass(absl::string_view file, int line,
                               SteadyTime now);

  // The places with suppressed lines that may write again. The caller must
  // report them now; the report counts as a line of the place.
  std::vector<LeftOut> TakeLeftOut(SteadyTime now);

 private:
  struct Place {
    int tokens = 0;
    SteadyTime refilled;
    uint64_t left_out = 0;
  };

  void Refill(Place& place, SteadyTime now) const;

  const Options options_;
  Mutex mu_;
  std::map<std::pair<std::string, int>, Place> places_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_LINE_LIMIT_H_
