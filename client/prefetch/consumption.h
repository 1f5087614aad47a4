// Consumption counts what the consumer of batches did since the loader was
// opened. ReadyQueue counts, WindowControl concludes.
//
// Plain data. `by_server` is not owned: it is valid during the call that passes
// the struct.

#ifndef MILLRACE_CLIENT_PREFETCH_CONSUMPTION_H_
#define MILLRACE_CLIENT_PREFETCH_CONSUMPTION_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "client/diagnosis/server_times.h"

namespace millrace::prefetch {

struct Consumption {
  uint64_t generation = 0;  // calls of Seek()
  uint64_t batches = 0;     // taken by the consumer
  double wait_seconds = 0;  // time that it waited for them
  // When it took the last batch; InfinitePast: none since the last Seek().
  absl::Time last_return = absl::InfinitePast();
  // Minimum, since counting began, of the batches that were ready, from the
  // next one on without a gap, when it asked for a batch.
  uint64_t min_in_hand = 0;
  const std::vector<diagnosis::ServerTimes>* by_server = nullptr;
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_CONSUMPTION_H_
