#include "client/prefetch/window_control.h"

#include "client/diagnosis/wait_verdict.h"

namespace millrace::prefetch {
namespace {

// A slot must be unused for this time before its memory is given back: much
// longer than a step, so that memory is not pinned and unpinned repeatedly. A
// choice.
constexpr absl::Duration kTrimAfter = absl::Seconds(10);
// Servers that delivered more than this share of the batches speak for all. A
// choice.
constexpr double kMajority = 0.5;
// A server that makes batches of this client for this share of the time is
// busy. A choice.
constexpr double kBusy = 0.9;

}  // namespace

bool WindowControl::Look(const Consumption& seen, bool disturbed,
                         uint32_t servers, absl::Time now) {
  if (disturbed || seen.batches == 0 ||
      seen.last_return == absl::InfinitePast() ||
      seen.generation != start_.generation) {
    // Another generation counts other batches, and there is no rate before the
    // first batch: the counts so far cannot be compared with later ones.
    tuner_.Disturbed();
    Restart(seen, now);
    return true;
  }
  const uint32_t before = window();
  switch (tuner_.Look(seen.batches - start_.batches,
                      absl::ToDoubleSeconds(now - start_.at))) {
    case WindowTuner::Next::kGoOn:
      return false;
    case WindowTuner::Next::kRestart:
      break;
    case WindowTuner::Next::kDecide:
      tuner_.Decide(Interval(seen, servers));
      break;
  }
  // Slots that were free with the old window may be needed with the new one, so
  // the watch starts again.
  if (window() != before) trim_at_ = absl::InfinitePast();
  Restart(seen, now);
  return true;
}

WindowInterval WindowControl::Interval(const Consumption& seen,
                                       uint32_t servers) const {
  WindowInterval interval;
  // From the return of one batch to that of another, so that only whole steps
  // count.
  interval.seconds = absl::ToDoubleSeconds(seen.last_return - start_.returned);
  interval.batches = seen.batches - start_.batches;
  interval.stall_seconds = seen.wait_seconds - start_.wait_seconds;
  interval.min_in_hand = seen.min_in_hand;
  interval.servers = servers;
  double all = 0;
  double lack_memory = 0;
  double busy = 0;
  for (const diagnosis::ServerTimes& server :
       diagnosis::Difference(*seen.by_server, start_.by_server)) {
    const double batches = static_cast<double>(server.batches);
    all += batches;
    switch (diagnosis::CauseAt(server, interval.seconds)) {
      case diagnosis::WaitCause::kMemory:
        lack_memory += batches;
        break;
      case diagnosis::WaitCause::kDecoding:
      case diagnosis::WaitCause::kAugmenting:
      case diagnosis::WaitCause::kWork:
        // A server is busy only if it makes batches of this client nearly all
        // the time. Otherwise it had none to make in between, whatever its
        // threads did while it made one.
        if (server.make_seconds >= kBusy * interval.seconds) busy += batches;
        break;
      default:
        break;
    }
  }
  interval.servers_lack_memory = refused_ || lack_memory > kMajority * all;
  interval.servers_are_busy = busy > kMajority * all;
  return interval;
}

void WindowControl::Restart(const Consumption& seen, absl::Time now) {
  start_.at = now;
  start_.returned = seen.last_return;
  start_.generation = seen.generation;
  start_.batches = seen.batches;
  start_.wait_seconds = seen.wait_seconds;
  start_.by_server = *seen.by_server;
  refused_ = false;
}

void WindowControl::Trim(SlotPool* pool, uint32_t spares, absl::Time now) {
  if (trim_at_ == absl::InfinitePast()) {
    pool->BeginTrim();
    trim_at_ = now + kTrimAfter;
  }
  if (now < trim_at_) return;
  // Kept: a slot for each batch in flight or ready, the spares, and one for
  // each batch that the consumer holds. When nothing is left to give back, the
  // watch starts again.
  if (!pool->TrimOne(window() + spares + pool->held())) {
    trim_at_ = absl::InfinitePast();
  }
}

}  // namespace millrace::prefetch
