// HedgePolicy says when a step is late enough to be asked of a second server,
// and how often that may be done. Late is measured: beyond what nearly all of
// the steps before took (Dean and Barroso, "The Tail at Scale", CACM 2013).
// How often is a share of the steps: each one that was delivered pays a part of
// a second request, and little can be saved up.
//
// Pure bookkeeping: no thread, no clock. Not thread-safe.
//
//   policy.Delivered(now - asked);
//   if (now - asked > policy.Delay() && policy.Affordable() > 0) {
//     ... ask a second server ...
//     policy.Spend(1);
//   }

#ifndef MILLRACE_CLIENT_PREFETCH_HEDGE_POLICY_H_
#define MILLRACE_CLIENT_PREFETCH_HEDGE_POLICY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace millrace {

class HedgePolicy {
 public:
  // Second requests that can be saved up.
  static constexpr double kBurst = 4;
  // Steps that the delay is measured over, the newest; and how many there must
  // be before there is one.
  static constexpr size_t kMemory = 256;
  static constexpr size_t kEnough = 32;

  // `share` of the steps may be asked twice; 0: none. A step is never late
  // before `floor`.
  HedgePolicy(double share, absl::Duration floor)
      : share_(share), floor_(floor) {}

  // A step took so long from being asked for to being whole.
  void Delivered(absl::Duration latency);

  // From being asked for: 1.5 times the 95th percentile, at most 4 medians and
  // at least the floor. InfiniteDuration: too little is known yet.
  absl::Duration Delay() const { return delay_; }

  // Second requests that may be made now.
  uint64_t Affordable() const {
    return share_ > 0 && tokens_ >= 1 ? static_cast<uint64_t>(tokens_) : 0;
  }

  // All requests so far are paid for.
  bool Solvent() const { return share_ > 0 && tokens_ >= 0; }

  // May be more than is affordable, when a server has stopped with many steps
  // under way: then the steps to come pay for it first.
  void Spend(uint64_t requests) { tokens_ -= static_cast<double>(requests); }

 private:
  void Measure();

  const double share_;
  const absl::Duration floor_;
  double tokens_ = kBurst;
  absl::Duration delay_ = absl::InfiniteDuration();
  std::array<absl::Duration, kMemory> latencies_;  // ring
  size_t known_ = 0;                               // entries in use
  size_t next_ = 0;                                // entry to write next
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_HEDGE_POLICY_H_
