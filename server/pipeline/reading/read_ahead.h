// ReadAhead is the engine's threads that block on storage, apart from those
// that decode: far more of them than CPUs, so that the waits of many samples
// overlap (network file systems, object stores, cold disks). The threads are
// started by the first Add(), which comes when storage first makes a thread
// wait (server/pipeline/reading/read_pace.h), and sleep when nothing is to be
// read.
//
// Thread-safe. Owns threads, their readers and the samples' memory. Plans and
// their clients share the threads' time, and where there are several plans none
// has all threads; within a run samples are read in the order of their rows.
//
// A thread here may block on storage, on a gate of the source or on room in the
// buffers. It never waits for a specific worker, and workers never wait for it:
// so the room that it waits for always becomes free.
//
//   ReadAhead ahead({.threads = 32, .buffer_bytes = 64 << 20,
//                    .read = [](const Task& task, WorkerState& reader) {...}});
//   ahead.Add(lane, job, samples, /*samples_per_task=*/1, step);

#ifndef MILLRACE_SERVER_PIPELINE_READING_READ_AHEAD_H_
#define MILLRACE_SERVER_PIPELINE_READING_READ_AHEAD_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "server/pipeline/reading/read_gates.h"
#include "server/pipeline/reading/sample_buffers.h"
#include "server/pipeline/row/worker_state.h"
#include "server/pipeline/threads/scheduler.h"

namespace millrace::pipeline {

class ReadAhead {
 public:
  using Task = Scheduler::Task;

  struct Options {
    uint32_t threads = 1;       // at first, at least 1
    uint32_t max_threads = 0;   // that SetThreads() may ask for; 0: `threads`
    uint64_t buffer_bytes = 0;  // of samples that are not used yet
    // Called on one of the threads for every task.
    std::function<void(const Task& task, WorkerState& reader)> read;
  };

  explicit ReadAhead(Options options)
      : max_threads_(std::max(options.threads, options.max_threads)),
        read_(std::move(options.read)),
        buffers_(options.buffer_bytes),
        readers_(max_threads_),
        wanted_(options.threads) {}

  // As Scheduler::Add(), for samples [0, samples). The first call starts the
  // threads. False after Stop(): nothing was added.
  bool Add(const std::shared_ptr<Scheduler::Lane>& lane,
           std::shared_ptr<Scheduler::Job> job, uint64_t samples,
           uint64_t samples_per_task, uint64_t order) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (stopped_) return false;
    if (threads_ == nullptr) {
      threads_ = std::make_unique<Scheduler>(Scheduler::Options{
          .threads = wanted_,
          .max_threads = max_threads_,
          .run = [this](uint32_t thread,
                        const Task& task) { read_(task, readers_[thread]); },
          .rest = [this](uint32_t thread) { readers_[thread].Clear(); },
          .name = "mr-reader",
          // Reads block: a plan that is new must find a thread that is not
          // blocked in another plan's storage.
          .sharing = {.leaves_room = true}});
    }
    // Under the lock: Stop() then finds what was added, and waits for it.
    threads_->Add(lane, std::move(job), 0, samples, samples_per_task, order);
    return true;
  }

  // Takes back what no thread has begun, each part as one task.
  std::vector<Task> Remove(const std::shared_ptr<Scheduler::Lane>& lane)
      MR_EXCLUDES(mu_) {
    Scheduler* const threads = started();
    return threads == nullptr ? std::vector<Task>() : threads->Remove(lane);
  }

  // As Scheduler::SetThreads(). Before the threads are started, the number is
  // kept for then.
  uint32_t SetThreads(uint32_t threads) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    wanted_ = std::clamp<uint32_t>(threads, 1, max_threads_);
    if (threads_ != nullptr) wanted_ = threads_->SetThreads(wanted_);
    return wanted_;
  }

  uint32_t threads() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return wanted_;
  }
  uint32_t max_threads() const { return max_threads_; }

  // A thread has read `samples` in `took`. Relaxed: the sums are for rates,
  // which need not be consistent with each other to a sample.
  void NoteReads(uint64_t samples, std::chrono::nanoseconds took) {
    read_samples_.fetch_add(samples, std::memory_order_relaxed);
    read_nanos_.fetch_add(took.count(), std::memory_order_relaxed);
  }

  // Sums since the start, in thread-seconds.
  struct Usage {
    double thread_seconds = 0;   // that the threads were there
    double idle_seconds = 0;     // without anything to read
    double blocked_seconds = 0;  // without room, or leave, to read
    double read_seconds = 0;     // that `samples` took
    uint64_t samples = 0;
  };
  Usage Measure() MR_EXCLUDES(mu_) {
    Usage usage;
    if (Scheduler* const threads = started()) {
      const Scheduler::Usage measured = threads->Measure(/*with_cpu=*/false);
      usage.thread_seconds = measured.thread_seconds;
      usage.idle_seconds = measured.idle_seconds;
    }
    usage.blocked_seconds = buffers_.WaitedSeconds() + gates_.WaitedSeconds();
    usage.samples = read_samples_.load(std::memory_order_relaxed);
    usage.read_seconds =
        1e-9 * static_cast<double>(read_nanos_.load(std::memory_order_relaxed));
    return usage;
  }

  // Reads what was added, then joins. Idempotent; one caller at a time.
  void Stop() MR_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      stopped_ = true;
    }
    if (Scheduler* const threads = started()) threads->Stop();
  }

  SampleBuffers& buffers() { return buffers_; }
  ReadGates& gates() { return gates_; }

 private:
  // Null before the first Add(). Used without the lock: made once and never
  // replaced.
  Scheduler* started() MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return threads_.get();
  }

  const uint32_t max_threads_;
  const std::function<void(const Task&, WorkerState&)> read_;
  SampleBuffers buffers_;
  ReadGates gates_;
  // readers_[i] is touched by thread i alone. Its size never changes.
  std::vector<WorkerState> readers_;
  std::atomic<uint64_t> read_samples_{0};
  std::atomic<uint64_t> read_nanos_{0};
  // Guards the start and the end of the threads. Held while they are started,
  // and taken before the scheduler's own locks.
  Mutex mu_;
  // The number of threads: of those that work, or of those to start. In [1,
  // max_threads_].
  uint32_t wanted_ MR_GUARDED_BY(mu_);
  // Stop() was called. Never cleared.
  bool stopped_ MR_GUARDED_BY(mu_) = false;
  // Null, then set once by Add(). Last, so that its threads end before what
  // they use.
  std::unique_ptr<Scheduler> threads_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_READING_READ_AHEAD_H_
