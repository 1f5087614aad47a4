// The delays of a client before it tries again: every delay of the client and
// of the trainer's loaders is a schedule below, or the delay that a busy server
// has named (RetryPause()). The trainer's connections between ranks have
// schedules of their own (trainer/ddp).
//
// What it is not: it does not decide what is retried (retry_rule.h), and
// remembers no server (server_set.h).
//
// Constants and a pure function, safe from any thread.
//
//   server.not_before =
//       now + kServerRetry.Delay(server.failures++, random);

#ifndef MILLRACE_CLIENT_PREFETCH_RETRY_SCHEDULES_H_
#define MILLRACE_CLIENT_PREFETCH_RETRY_SCHEDULES_H_

#include "absl/time/time.h"
#include "common/retry_schedule.h"

namespace millrace::prefetch {

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
// `random` is in [0, 1).
inline absl::Duration RetryPause(absl::Duration delay, double random) {
  return delay + delay / 4 * random;
}

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_RETRY_SCHEDULES_H_
