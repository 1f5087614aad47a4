// RetrySchedule says how long a component waits before it tries again.
//
// What it is not: it does not decide what is retried, and counts no failures.
//
// Plain data and a pure function, safe from any thread.
//
//   constexpr RetrySchedule kRetry = {.first = absl::Milliseconds(50),
//                                     .max = absl::Seconds(2),
//                                     .random_share = 0.5};
//   not_before = now + kRetry.Delay(failures++, random);

#ifndef MILLRACE_COMMON_RETRY_SCHEDULE_H_
#define MILLRACE_COMMON_RETRY_SCHEDULE_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace millrace {

struct RetrySchedule {
  absl::Duration first;     // after one failure
  absl::Duration max;       // upper bound; `first`: every delay is the same
  double random_share = 0;  // of a delay

  // `first`, doubled by each of `earlier_failures` in a row, at most `max`.
  // `random` is in [0, 1) and spreads the retries of several clients.
  absl::Duration Delay(uint32_t earlier_failures = 0, double random = 0) const {
    const absl::Duration delay = std::min(
        max, first * (int64_t{1} << std::min<uint32_t>(earlier_failures, 10)));
    return delay * (1 - random_share) + delay * random_share * random;
  }
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_RETRY_SCHEDULE_H_
