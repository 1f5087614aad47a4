// ThreadTally sums the time that threads spend in some state. The time of
// threads that are still in the state is included.
//
// Not thread-safe: its owner's mutex guards it.
//
//   idle_.Add(1);  // a thread enters the state
//   idle_.Add(-1);  // and leaves it
//   double thread_seconds = idle_.Seconds();

#ifndef MILLRACE_SERVER_PIPELINE_THREADS_THREAD_TALLY_H_
#define MILLRACE_SERVER_PIPELINE_THREADS_THREAD_TALLY_H_

#include <chrono>
#include <cstdint>

namespace millrace::pipeline {

class ThreadTally {
 public:
  void Add(int32_t threads) {
    Count();
    threads_ += threads;
  }

  uint32_t threads() const { return static_cast<uint32_t>(threads_); }

  double Seconds() {
    Count();
    return std::chrono::duration<double>(sum_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Before threads_ changes.
  void Count() {
    const Clock::time_point now = Clock::now();
    sum_ += threads_ * (now - until_);
    until_ = now;
  }

  int32_t threads_ = 0;
  Clock::duration sum_ = Clock::duration::zero();  // up to until_
  Clock::time_point until_ = Clock::now();
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_THREADS_THREAD_TALLY_H_
