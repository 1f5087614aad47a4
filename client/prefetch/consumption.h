// Consumption is what the consumer of batches has done since the loader was
// opened: ReadyQueue counts it, WindowControl draws its conclusions.
//
// Plain data. `by_server` is not owned: it is valid where the struct is given.

#ifndef MILLRACE_CLIENT_PREFETCH_CONSUMPTION_H_
#define MILLRACE_CLIENT_PREFETCH_CONSUMPTION_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "client/diagnosis/server_times.h"

namespace millrace {

struct Consumption {
  uint64_t generation = 0;  // calls of Seek()
  uint64_t batches = 0;     // that it took
  double wait_seconds = 0;  // that it waited for them
  // When it took the last one; InfinitePast: none since the last Seek().
  absl::Time last_return = absl::InfinitePast();
  // Whole batches, one after the other from the next one on, that it found when
  // it came for one: the minimum since counting began.
  uint64_t min_in_hand = 0;
  const std::vector<ServerTimes>* by_server = nullptr;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_CONSUMPTION_H_
