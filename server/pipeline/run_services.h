// RunServices is what the runs of one engine share: the threads, the memory and
// the clocks that a StepRun uses, and the tallies that it adds to. It owns
// nothing but the buffer pool, and everything in it outlives the runs.
//
// What it points at is thread-safe.

#ifndef MILLRACE_SERVER_PIPELINE_RUN_SERVICES_H_
#define MILLRACE_SERVER_PIPELINE_RUN_SERVICES_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "common/byte_budget.h"
#include "common/deadline_timer.h"
#include "server/batch/buffer_pool.h"
#include "server/decode/large_image_gate.h"
#include "server/pipeline/reading/read_ahead.h"
#include "server/pipeline/row/bad_sample_list.h"
#include "server/pipeline/threads/scheduler.h"
#include "server/pipeline/threads/stage_clock.h"

namespace millrace::pipeline {

// Counters of all runs since the engine started.
struct RunTally {
  // Time that worker threads waited for storage in reads of their own.
  std::atomic<uint64_t> storage_wait_nanos{0};
  std::atomic<uint64_t> bad_samples{0};
  std::atomic<uint64_t> refused_admissions{0};
  BadSampleList bad_list;
};

struct RunServices {
  Scheduler* scheduler = nullptr;
  // Null: the worker threads read the samples themselves.
  ReadAhead* ahead = nullptr;
  ByteBudget* budget = nullptr;
  // Max time that a step waits for memory; 0: no limit.
  absl::Duration admission_timeout;
  DeadlineTimer* timer = nullptr;
  decode::LargeImageGate* large_images = nullptr;
  std::shared_ptr<batch::BufferPool> pool;
  StageClock* clock = nullptr;
  RunTally* tally = nullptr;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_RUN_SERVICES_H_
