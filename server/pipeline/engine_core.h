// What the parts of the engine share, and the engine with another way to make
// image stages than ImageStage::Create (for tests).

#ifndef MILLRACE_SERVER_PIPELINE_ENGINE_CORE_H_
#define MILLRACE_SERVER_PIPELINE_ENGINE_CORE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "common/byte_budget.h"
#include "common/deadline_timer.h"
#include "server/batch/buffer_pool.h"
#include "server/decode/large_image_gate.h"
#include "server/pipeline/built/built_pipeline.h"
#include "server/pipeline/built/ready_batches.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/reading/read_ahead.h"
#include "server/pipeline/row/bad_sample_list.h"
#include "server/pipeline/threads/fair_queue.h"
#include "server/pipeline/threads/scheduler.h"
#include "server/pipeline/threads/stage_clock.h"
#include "server/pipeline/threads/thread_tuner.h"

namespace millrace {

// Lives as long as the engine; runs point at it. Self-synchronised.
struct EngineParts {
  ByteBudget* budget = nullptr;
  std::shared_ptr<BufferPool> pool;
  absl::Duration admission_timeout;
  // Null: samples are read by the threads that work on them.
  std::unique_ptr<ReadAhead> ahead;
  StageClock clock;
  // That worker threads waited for storage in reads of their own.
  std::atomic<uint64_t> storage_wait_nanos{0};
  std::atomic<uint64_t> bad_samples{0};
  BadSampleList bad_list;
  std::shared_ptr<ReadyShare> ready_share;
  std::unique_ptr<LargeImageGate> large_images;
  std::atomic<uint64_t> refused_admissions{0};
  // Last: their threads use what is above.
  std::unique_ptr<DeadlineTimer> timer;
  std::unique_ptr<Scheduler> scheduler;
};

// How the numbers of threads are changed, where the engine's options let them;
// for tests.
struct EngineTuning {
  absl::Duration interval = absl::Seconds(2);
  std::shared_ptr<ThreadPolicy> policy;  // null: a ThreadTuner
};

absl::StatusOr<std::unique_ptr<Engine>> CreateEngine(
    const Engine::Options& options, DatasetCatalog catalog,
    ImageStageFactory make_stage, EngineTuning tuning = {});

// Engine::Needs() with another way to make stages.
absl::StatusOr<MemoryNeeds> NeedsOf(const Engine::Options& options,
                                    const DatasetCatalog& catalog,
                                    const ImageStageFactory& make_stage);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_ENGINE_CORE_H_
