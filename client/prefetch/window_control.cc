#include "client/prefetch/window_control.h"

#include "client/prefetch/verdict.h"

namespace millrace {
namespace {

// A slot must have been of no use for so long before its memory is given back.
constexpr absl::Duration kTrimAfter = absl::Seconds(10);
// Servers that more than this share of the batches came from speak for all.
constexpr double kMostBatches = 0.5;
// A server that works on batches of this client for this share of the time is
// busy.
constexpr double kBusy = 0.9;

}  // namespace

bool WindowControl::Look(const Consumption& seen, bool disturbed,
                         uint32_t servers, absl::Time now) {
  if (disturbed || seen.batches == 0 ||
      seen.last_return == absl::InfinitePast() ||
      seen.generation != start_.generation) {
    tuner_.Disturbed();
    CountAnew(seen, now);
    return true;
  }
  const uint32_t before = window();
  switch (tuner_.Look(seen.batches - start_.batches,
                      absl::ToDoubleSeconds(now - start_.at))) {
    case WindowTuner::Next::kGoOn:
      return false;
    case WindowTuner::Next::kCountAnew:
      break;
    case WindowTuner::Next::kDecide:
      tuner_.Decide(Interval(seen, servers));
      break;
  }
  if (window() != before) trim_at_ = absl::InfinitePast();
  CountAnew(seen, now);
  return true;
}

WindowInterval WindowControl::Interval(const Consumption& seen,
                                       uint32_t servers) const {
  WindowInterval interval;
  // From batch to batch, so that no part of one is counted.
  interval.seconds = absl::ToDoubleSeconds(seen.last_return - start_.returned);
  interval.batches = seen.batches - start_.batches;
  interval.stall_seconds = seen.wait_seconds - start_.wait_seconds;
  interval.least_in_hand = seen.min_in_hand;
  interval.servers = servers;
  double all = 0;
  double lack_memory = 0;
  double busy = 0;
  for (const ServerTimes& server :
       Difference(*seen.by_server, start_.by_server)) {
    const double batches = static_cast<double>(server.batches);
    all += batches;
    switch (CauseAt(server, interval.seconds)) {
      case WaitCause::kMemory:
        lack_memory += batches;
        break;
      case WaitCause::kDecoding:
      case WaitCause::kAugmenting:
      case WaitCause::kWork:
        // Idle is what its threads were while it made batches: between them it
        // may have had none to make.
        if (server.make_seconds >= kBusy * interval.seconds) busy += batches;
        break;
      default:
        break;
    }
  }
  interval.servers_lack_memory = refused_ || lack_memory > kMostBatches * all;
  interval.servers_are_busy = busy > kMostBatches * all;
  return interval;
}

void WindowControl::CountAnew(const Consumption& seen, absl::Time now) {
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
  if (!pool->TrimOne(window() + spares + pool->held())) {
    trim_at_ = absl::InfinitePast();
  }
}

}  // namespace millrace
