// The delays before a server is tried again: RetryBackoff() after failures,
// RetryPause() when the server has named a delay itself.
//
// What it is not: it does not decide what is retried (retry_rule.h), and
// remembers no server (server_set.h).
//
// Pure functions, safe from any thread. `random` is in [0, 1) and spreads the
// retries of several clients.
//
//   server.not_before = now + RetryBackoff(server.failures++, random);

#ifndef MILLRACE_CLIENT_PREFETCH_RETRY_BACKOFF_H_
#define MILLRACE_CLIENT_PREFETCH_RETRY_BACKOFF_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace millrace::prefetch {

inline constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
inline constexpr absl::Duration kMaxBackoff = absl::Seconds(2);

// kFirstBackoff, doubled by each of `earlier_failures` in a row, at most
// kMaxBackoff. Half of the delay is random.
inline absl::Duration RetryBackoff(uint32_t earlier_failures, double random) {
  const absl::Duration backoff = std::min(
      kMaxBackoff,
      kFirstBackoff * (int64_t{1} << std::min<uint32_t>(earlier_failures, 10)));
  return backoff / 2 + backoff / 2 * random;
}

// `delay` of the server (proto/retry_hint.h), plus up to a quarter of it.
inline absl::Duration RetryPause(absl::Duration delay, double random) {
  return delay + delay / 4 * random;
}

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_RETRY_BACKOFF_H_
