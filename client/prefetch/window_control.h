// WindowControl adapts the window of a loader to measurements. It turns the
// consumption and the servers' timings into the intervals that WindowTuner
// decides on, and gives slots back to the allocator that the window has not
// needed for 10 seconds.
//
// The window decides when and where steps are requested; the batches and their
// order do not depend on it. WindowControl measures nothing itself and requests
// nothing.
//
// No thread, no clock. Not thread-safe.
//
//   const bool restart = control.Look(consumption, disturbed, servers, now);
//   if (restart) ... consumption.min_in_hand starts again ...
//   control.Trim(pool, spares, now);
//   ... request batches up to control.window() ...

#ifndef MILLRACE_CLIENT_PREFETCH_WINDOW_CONTROL_H_
#define MILLRACE_CLIENT_PREFETCH_WINDOW_CONTROL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/diagnosis/server_times.h"
#include "client/prefetch/consumption.h"
#include "client/prefetch/slot_pool.h"
#include "client/prefetch/window_tuner.h"

namespace millrace::prefetch {

class WindowControl {
 public:
  explicit WindowControl(const WindowTuner::Options& options)
      : tuner_(options) {}

  uint32_t window() const { return tuner_.window(); }
  // Number of changes, and the reason of the last one: a clause.
  uint64_t changes() const { return tuner_.changes(); }
  const std::string& reason() const { return tuner_.reason(); }

  // A server has refused a call because it lacks memory.
  void Refused() { refused_ = true; }

  // Takes the consumption until now; `servers` are in use. `disturbed`: it is
  // not representative, because the data end or nothing can be requested. True:
  // counting starts again from here.
  bool Look(const Consumption& seen, bool disturbed, uint32_t servers,
            absl::Time now);

  // Call it often while the window does not change. Gives back at most one slot
  // per call, because freeing page-locked memory takes long. `spares`: slots on
  // top of the window.
  void Trim(SlotPool* pool, uint32_t spares, absl::Time now);

 private:
  // Values when counting for the tuner began.
  struct Start {
    absl::Time at = absl::InfinitePast();
    absl::Time returned = absl::InfinitePast();
    uint64_t generation = 0;
    uint64_t batches = 0;
    double wait_seconds = 0;
    std::vector<diagnosis::ServerTimes> by_server;
  };

  // Measurements since `start_`.
  WindowInterval Interval(const Consumption& seen, uint32_t servers) const;
  void Restart(const Consumption& seen, absl::Time now);

  // start_ holds the values at the start of the present interval. The tuner
  // sees the differences from them.
  WindowTuner tuner_;
  Start start_;
  bool refused_ = false;  // since `start_`
  // Time from which slots may be given back; InfinitePast: not watched yet.
  absl::Time trim_at_ = absl::InfinitePast();
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_WINDOW_CONTROL_H_
