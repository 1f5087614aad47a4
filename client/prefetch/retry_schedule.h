// RetrySchedule says how long a client waits before it tries again. Every delay
// of the client and of the trainer's loaders is a schedule below, or the delay
// that a busy server has named (RetryPause()).
//
// What it is not: it does not decide what is retried (retry_rule.h), and
// remembers no server (server_set.h).
//
// Plain data and pure functions, safe from any thread. `random` is in [0, 1)
// and spreads the retries of several clients.
//
//   server.not_before =
//       now + kServerRetry.Delay(server.failures++, random);

#ifndef MILLRACE_CLIENT_PREFETCH_RETRY_SCHEDULE_H_
#define MILLRACE_CLIENT_PREFETCH_RETRY_SCHEDULE_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace millrace::prefetch {

struct RetrySchedule {
  absl::Duration first;     // after one failure
  absl::Duration max;       // upper bound; `first`: every delay is the same
  double random_share = 0;  // of a delay

  // `first`, doubled by each of `earlier_failures` in a row, at most `max`.
  absl::Duration Delay(uint32_t earlier_failures = 0, double random = 0) const {
    const absl::Duration delay = std::min(
        max, first * (int64_t{1} << std::min<uint32_t>(earlier_failures, 10)));
    return delay * (1 - random_share) + delay * random_share * random;
  }
};

// A server of a loader that fails to send batches.
inline constexpr RetrySchedule kServerRetry = {.first = absl::Milliseconds(50),
                                               .max = absl::Seconds(2),
                                               .random_share = 0.5};
// A request that no server answers, or that busy servers refuse: a question, or
// the opening of a loader again.
inline constexpr RetrySchedule kQuestionRetry = {
    .first = absl::Milliseconds(200), .max = absl::Milliseconds(200)};
// A link of shared memory that failed or ended; until then, batches come over
// the network.
inline constexpr RetrySchedule kSharedMemoryRetry = {.first = absl::Seconds(10),
                                                     .max = absl::Seconds(10)};

// `delay` of the server (proto/retry_hint.h), plus up to a quarter of it.
inline absl::Duration RetryPause(absl::Duration delay, double random) {
  return delay + delay / 4 * random;
}

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_RETRY_SCHEDULE_H_
