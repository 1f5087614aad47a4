// WindowControl lets the window of a loader follow what is measured. It turns
// what the consumer has done and what the servers say into the intervals that
// WindowTuner decides on, and gives slots back to the allocator that a window
// has not needed for 10 seconds.
//
// Which steps are requested where and when depends on it; the batches do not.
// It measures nothing itself and requests nothing.
//
// No thread, no clock. Not thread-safe.
//
//   const bool anew = control.Look(consumption, disturbed, servers, now);
//   if (anew) ... consumption.min_in_hand begins anew ...
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

namespace millrace {

class WindowControl {
 public:
  explicit WindowControl(const WindowTuner::Options& options)
      : tuner_(options) {}

  uint32_t window() const { return tuner_.window(); }
  // How often it has changed, and why the last time: a clause.
  uint64_t changes() const { return tuner_.changes(); }
  const std::string& reason() const { return tuner_.reason(); }

  // A server has refused a call for want of memory.
  void Refused() { refused_ = true; }

  // What has happened until now. `disturbed`: it says nothing, because the data
  // end or nothing can be requested. `servers` are in use. True: counting
  // begins anew with this.
  bool Look(const Consumption& seen, bool disturbed, uint32_t servers,
            absl::Time now);

  // To be called often while the window stays as it is: gives at most one slot
  // back, for pinned memory takes long. `spares`: slots on top of the window.
  void Trim(SlotPool* pool, uint32_t spares, absl::Time now);

 private:
  // Where counting for the tuner began.
  struct Start {
    absl::Time at = absl::InfinitePast();
    absl::Time returned = absl::InfinitePast();
    uint64_t generation = 0;
    uint64_t batches = 0;
    double wait_seconds = 0;
    std::vector<ServerTimes> by_server;
  };

  // What was seen since `start_`.
  WindowInterval Interval(const Consumption& seen, uint32_t servers) const;
  void CountAnew(const Consumption& seen, absl::Time now);

  // start_ is where the present interval began; Difference() to it is what the
  // tuner sees.
  WindowTuner tuner_;
  Start start_;
  bool refused_ = false;  // since `start_`
  // When slots may be given back; InfinitePast: the wait has not begun.
  absl::Time trim_at_ = absl::InfinitePast();
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_WINDOW_CONTROL_H_
