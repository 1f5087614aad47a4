// ReadGates limits the number of threads that read a source ahead at the same
// time to RecordSource::max_concurrent_reads, because the source has memory for
// no more.
//
// Threads pass the gate of a source in the order in which they came. They take
// their reads in the order of the steps, so the reads of the earliest step are
// not overtaken by those of later ones.
//
// Thread-safe. A pass may wait; a thread holds one at a time. Sources with a
// limit must outlive it.
//
//   const ReadGates::Pass pass(gates, source);  // until it goes

#ifndef MILLRACE_SERVER_PIPELINE_READING_READ_GATES_H_
#define MILLRACE_SERVER_PIPELINE_READING_READ_GATES_H_

#include <chrono>
#include <cstdint>
#include <deque>
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
      Gate& gate = gates_.gates_[&source_];
      if (gate.inside < limit_ && gate.line.empty()) {
        ++gate.inside;
        return;
      }
      const auto start = std::chrono::steady_clock::now();
      gates_.waiting_.Add(1);
      gate.line.push_back(this);
      while (!let_in_) changed_.Wait(lock);
      gates_.waiting_.Add(-1);
      waited_ = std::chrono::steady_clock::now() - start;
    }
    ~Pass() {
      if (limit_ == 0) return;
      MutexLock lock(gates_.mu_);
      const auto found = gates_.gates_.find(&source_);
      Gate& gate = found->second;
      --gate.inside;
      // Signalled under the lock: a pass that is let in may end, and its
      // condition variable with it, as soon as the lock is released.
      while (!gate.line.empty() && gate.inside < gate.line.front()->limit_) {
        Pass* const first = gate.line.front();
        gate.line.pop_front();
        ++gate.inside;
        first->let_in_ = true;
        first->changed_.NotifyOne();
      }
      if (gate.inside == 0) gates_.gates_.erase(found);
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    // The time that the pass waited at the gate.
    std::chrono::nanoseconds waited() const { return waited_; }

   private:
    ReadGates& gates_;
    const storage::RecordSource& source_;
    const uint32_t limit_;
    // Guarded by the gates' mutex. Set once, by the pass that makes room.
    bool let_in_ = false;
    CondVar changed_;
    std::chrono::nanoseconds waited_{0};
  };

  // Thread-seconds that passes were waited for, so far.
  double WaitedSeconds() {
    MutexLock lock(mu_);
    return waiting_.Seconds();
  }

  // Threads that wait for a pass now.
  uint32_t waiting() const {
    MutexLock lock(mu_);
    return waiting_.threads();
  }

 private:
  // Exists while a thread is inside. No thread waits at a gate with nobody
  // inside, because a limit is at least 1.
  struct Gate {
    uint32_t inside = 0;
    std::deque<Pass*> line;
  };

  mutable Mutex mu_;
  ThreadTally waiting_ MR_GUARDED_BY(mu_);
  std::map<const storage::RecordSource*, Gate> gates_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_READING_READ_GATES_H_
