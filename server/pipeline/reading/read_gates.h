// ReadGates limits the number of threads that read a source ahead at the same
// time to RecordSource::max_concurrent_reads, because the source has memory for
// no more.
//
// Thread-safe. A pass may wait; a thread holds one at a time. Sources with a
// limit must outlive it.
//
//   const ReadGates::Pass pass(gates, source);  // until it goes

#ifndef MILLRACE_SERVER_PIPELINE_READING_READ_GATES_H_
#define MILLRACE_SERVER_PIPELINE_READING_READ_GATES_H_

#include <chrono>
#include <cstdint>
#include <map>

#include "common/mutex.h"
#include "server/pipeline/threads/thread_tally.h"
#include "server/storage/record_source.h"

namespace millrace::pipeline {

class ReadGates {
 public:
  class Pass {
   public:
    Pass(ReadGates& gates, const storage::RecordSource& source)
        : gates_(gates),
          source_(source),
          limit_(source.max_concurrent_reads()) {
      if (limit_ == 0) return;
      MutexLock lock(gates_.mu_);
      if (gates_.inside_[&source_] >= limit_) {
        const auto start = std::chrono::steady_clock::now();
        gates_.waiting_.Add(1);
        while (gates_.inside_[&source_] >= limit_) gates_.changed_.Wait(lock);
        gates_.waiting_.Add(-1);
        waited_ = std::chrono::steady_clock::now() - start;
      }
      ++gates_.inside_[&source_];
    }
    ~Pass() {
      if (limit_ == 0) return;
      {
        MutexLock lock(gates_.mu_);
        --gates_.inside_[&source_];
      }
      gates_.changed_.NotifyAll();
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    // The time that the pass waited at the gate.
    std::chrono::nanoseconds waited() const { return waited_; }

   private:
    ReadGates& gates_;
    const storage::RecordSource& source_;
    const uint32_t limit_;
    std::chrono::nanoseconds waited_{0};
  };

  // Thread-seconds that passes were waited for, so far.
  double WaitedSeconds() {
    MutexLock lock(mu_);
    return waiting_.Seconds();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  ThreadTally waiting_ MR_GUARDED_BY(mu_);
  std::map<const storage::RecordSource*, uint32_t> inside_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_READING_READ_GATES_H_
