// ReadAhead is the engine's threads that wait for storage, apart from those
// that decode: far more of them than CPUs, so that the waits of many samples
// overlap (network file systems, object stores, cold disks). The threads are
// started when storage first makes somebody wait (server/pipeline/read_pace.h)
// and sleep when it does not.
//
// Thread-safe. Owns threads, their readers and the samples' memory. Runs take
// turns; within a run samples are read in the order of their rows.
//
//   ReadAhead ahead(32, 64 << 20, [](const Task& task, ReadAhead::Thread& t) {
//     ...
//   });
//   ahead.Add(lane, job, samples, /*samples_per_task=*/1, step);

#ifndef MILLRACE_SERVER_PIPELINE_READ_AHEAD_H_
#define MILLRACE_SERVER_PIPELINE_READ_AHEAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "server/pipeline/read_gates.h"
#include "server/pipeline/sample_buffers.h"
#include "server/pipeline/scheduler.h"
#include "server/pipeline/worker_state.h"

namespace millrace {

class ReadAhead {
 public:
  using Task = Scheduler::Task;

  // `read` is called on one of `threads` (at least 1) threads for every task.
  ReadAhead(uint32_t threads, uint64_t buffer_bytes,
            std::function<void(const Task& task, WorkerState& reader)> read)
      : thread_count_(threads),
        read_(std::move(read)),
        buffers_(buffer_bytes),
        readers_(threads) {}

  // As Scheduler::AddRange().
  void Add(const std::shared_ptr<Scheduler::Lane>& lane,
           std::shared_ptr<Scheduler::Job> job, uint64_t samples,
           uint64_t samples_per_task, uint64_t order) MR_EXCLUDES(mu_) {
    Scheduler* threads;
    {
      MutexLock lock(mu_);
      if (threads_ == nullptr) {
        threads_ = std::make_unique<Scheduler>(
            thread_count_,
            [this](uint32_t thread, const Task& task) {
              read_(task, readers_[thread]);
            },
            "mr-reader");
      }
      threads = threads_.get();
    }
    threads->AddRange(lane, std::move(job), 0, samples, samples_per_task,
                      order);
  }

  // Takes back what no thread has begun.
  std::vector<Task> Remove(const std::shared_ptr<Scheduler::Lane>& lane)
      MR_EXCLUDES(mu_) {
    Scheduler* threads;
    {
      MutexLock lock(mu_);
      threads = threads_.get();
    }
    return threads == nullptr ? std::vector<Task>() : threads->Remove(lane);
  }

  // Reads what was added, then joins. Idempotent; nothing may be added after.
  void Stop() MR_EXCLUDES(mu_) {
    Scheduler* threads;
    {
      MutexLock lock(mu_);
      threads = threads_.get();
    }
    if (threads != nullptr) threads->Stop();
  }

  SampleBuffers& buffers() { return buffers_; }
  ReadGates& gates() { return gates_; }

 private:
  const uint32_t thread_count_;
  const std::function<void(const Task&, WorkerState&)> read_;
  SampleBuffers buffers_;
  ReadGates gates_;
  std::vector<WorkerState> readers_;  // of each thread, used by it alone
  Mutex mu_;
  // Last; made once. Its threads use all of the above.
  std::unique_ptr<Scheduler> threads_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_READ_AHEAD_H_
