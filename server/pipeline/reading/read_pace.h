// ReadPace decides by measurements whether read threads read the samples of a
// pipeline ahead, or worker threads read them directly. Storage that does not
// block (its pages are in memory, its row groups in a cache) is read directly,
// because that needs no handover between threads. When worker threads lose a
// tenth of their time to waits for storage, read threads take over. The batches
// are the same either way.
//
// Thread-safe: threads note what they met, roughly once a task.
//
//   if (pace.ahead()) ...
//   pace.NoteWork(rows, nanos);  // of those who work on samples
//   pace.NoteWait(rows, nanos);  // of those who read them, who may be the same

#ifndef MILLRACE_SERVER_PIPELINE_READING_READ_PACE_H_
#define MILLRACE_SERVER_PIPELINE_READING_READ_PACE_H_

#include <atomic>
#include <cstdint>

#include "server/storage/record_source.h"

namespace millrace::pipeline {

class ReadPace {
 public:
  // Starts with reading ahead if Read() itself waits, because the length of the
  // first read is not known and may be long.
  explicit ReadPace(storage::ReadWait wait)
      : wait_(wait), ahead_(wait == storage::ReadWait::kRead) {}

  storage::ReadWait wait() const { return wait_; }

  bool ahead() const { return ahead_.load(std::memory_order_relaxed); }

  // Nanoseconds that threads worked on `samples` (their waits are part of it
  // when they read themselves).
  void NoteWork(uint64_t samples, uint64_t nanos) {
    Add(samples, nanos, work_samples_, work_nanos_);
  }

  // Nanoseconds that threads waited for storage when reading `samples`.
  void NoteWait(uint64_t samples, uint64_t nanos) {
    Add(samples, nanos, wait_samples_, wait_nanos_);
    if (wait_samples_.load(std::memory_order_relaxed) >= kSamples ||
        wait_nanos_.load(std::memory_order_relaxed) >= kNanos) {
      Decide();
    }
  }

 private:
  using Sum = std::atomic<uint64_t>;

  // Samples that a decision is based on, or a total wait that is long enough
  // for a decision.
  static constexpr uint64_t kSamples = 256;
  static constexpr uint64_t kNanos = 20'000'000;

  static void Add(uint64_t samples, uint64_t nanos, Sum& all_samples,
                  Sum& all_nanos) {
    all_samples.fetch_add(samples, std::memory_order_relaxed);
    all_nanos.fetch_add(nanos, std::memory_order_relaxed);
  }

  static double PerSample(Sum& samples, Sum& nanos) {
    const uint64_t n = samples.exchange(0, std::memory_order_relaxed);
    const uint64_t sum = nanos.exchange(0, std::memory_order_relaxed);
    return n == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(n);
  }

  // Threads may decide at the same time, each about a part: no harm is done by
  // a decision that the next one takes back.
  void Decide() {
    const double waited = PerSample(wait_samples_, wait_nanos_);
    const double worked = PerSample(work_samples_, work_nanos_);
    // Less than the hand-over costs: of a copy and a task for every sample, or
    // of a task for many whose pages are touched.
    const double floor = wait_ == storage::ReadWait::kRead ? 5000 : 500;
    const bool was = ahead();
    const double share = was ? 0.05 : 0.1;  // so that it does not flutter
    const bool now = waited >= floor && waited >= share * worked;
    if (now != was) ahead_.store(now, std::memory_order_relaxed);
  }

  const storage::ReadWait wait_;
  std::atomic<bool> ahead_;
  Sum work_samples_{0};
  Sum work_nanos_{0};
  Sum wait_samples_{0};
  Sum wait_nanos_{0};
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_READING_READ_PACE_H_
