// MemoryReturn decides when a server returns unused memory to the system: after
// a few seconds without a call, and during work when the process has grown
// above its expected size. malloc keeps freed memory, and pools keep buffers
// for the next batch. Both help while there is work, and neither ends by
// itself.
//
// Pure: one thread calls Look() about every second. `release` may take tens of
// milliseconds.
//
//   MemoryReturn memory({.resident = &ResidentBytes,
//                        .in_use = &AllocatedBytes,
//                        .release = [&](bool idle) {...}});
//   memory.Look(idle, Now());

#ifndef MILLRACE_SERVER_RPC_MEMORY_RETURN_H_
#define MILLRACE_SERVER_RPC_MEMORY_RETURN_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "common/mutex.h"

namespace millrace::rpc {

class MemoryReturn {
 public:
  struct Options {
    // Memory of the process above which it gives back also while it works.
    uint64_t expected_bytes = 0;
    // Memory of the process now.
    std::function<uint64_t()> resident;
    // Bytes that malloc has given out now; 0: not known.
    std::function<uint64_t()> in_use;
    // Gives memory back; `idle`: also what the next batches would use.
    std::function<void(bool idle)> release;
    // Without a call before memory is given back.
    std::chrono::seconds idle_time{3};
    // Between two times while there is work.
    std::chrono::seconds busy_interval{30};
    // Growth of an idle server that is too small to release memory for.
    uint64_t slack_bytes = 16 << 20;
  };

  explicit MemoryReturn(Options options) : options_(std::move(options)) {}

  // `idle`: there has been no call since the last look.
  void Look(bool idle, SteadyTime now) {
    if (!idle) {
      idle_since_ = SteadyTime::max();
      const uint64_t resident = options_.resident();
      if (resident <= options_.expected_bytes || now < next_busy_) return;
      next_busy_ = now + options_.busy_interval;
      options_.release(/*idle=*/false);
      return;
    }
    if (idle_since_ == SteadyTime::max()) idle_since_ = now;
    if (now - idle_since_ < options_.idle_time) return;
    // Also without calls it may grow again: by requests that are no streams,
    // and by connections. What those take is freed as they end, and stays with
    // malloc.
    const uint64_t in_use = options_.in_use();
    in_use_peak_ = std::max(in_use_peak_, in_use);
    if (options_.resident() <= kept_bytes_ + options_.slack_bytes &&
        in_use_peak_ <= in_use + options_.slack_bytes) {
      return;
    }
    options_.release(/*idle=*/true);
    kept_bytes_ = options_.resident();
    in_use_peak_ = options_.in_use();
  }

 private:
  const Options options_;
  SteadyTime idle_since_ = SteadyTime::max();  // max: it is not idle
  SteadyTime next_busy_;
  // Since memory was last given back by an idle server: what it kept, and the
  // maximum of what malloc had given out.
  uint64_t kept_bytes_ = 0;
  uint64_t in_use_peak_ = 0;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_MEMORY_RETURN_H_
