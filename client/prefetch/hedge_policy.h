// HedgePolicy says when a step is late enough to be requested from a second
// server (a hedge), and how many hedges the budget allows. A step is late when
// it takes longer than nearly all recent steps did (Dean and Barroso, "The Tail
// at Scale", CACM 2013). The budget is a share of the steps: each delivered
// step pays for a part of a hedge, and the budget is small.
//
// What it is not: it sends no request and chooses no server (LateSteps).
//
// Pure bookkeeping: no thread, no clock. Not thread-safe.
//
//   policy.Delivered(now - requested);
//   if (now - requested > policy.Delay() && policy.Affordable() > 0) {
//     ... request the step from a second server ...
//     policy.Spend(1);
//   }

#ifndef MILLRACE_CLIENT_PREFETCH_HEDGE_POLICY_H_
#define MILLRACE_CLIENT_PREFETCH_HEDGE_POLICY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace millrace::prefetch {

class HedgePolicy {
 public:
  // Max number of hedges that can be saved up.
  static constexpr double kBurst = 4;
  // The delay is measured over the newest kMemory steps, and unknown before
  // kEnough steps.
  static constexpr size_t kMemory = 256;
  static constexpr size_t kEnough = 32;

  // Max share of the steps that are hedged; 0: none. A step is never late
  // before `floor`.
  HedgePolicy(double share, absl::Duration floor)
      : share_(share), floor_(floor) {}

  // A step was whole `latency` after its request.
  void Delivered(absl::Duration latency);

  // A step is late this long after its request: 1.5 times the 95th percentile,
  // at most 4 medians, and at least the floor. InfiniteDuration: too few steps
  // are known.
  absl::Duration Delay() const { return delay_; }

  // Hedges that the budget allows now.
  uint64_t Affordable() const {
    return share_ > 0 && tokens_ >= 1 ? static_cast<uint64_t>(tokens_) : 0;
  }

  // All hedges so far are paid for.
  bool Solvent() const { return share_ > 0 && tokens_ >= 0; }

  // `requests` may exceed Affordable() when a server stops with many steps in
  // flight: later steps then pay the debt first.
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

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_HEDGE_POLICY_H_
