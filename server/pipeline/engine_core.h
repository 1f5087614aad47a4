// The engine's constructor for tests: with another way to make image stages
// than ImageStage::Create, and with another rule for the numbers of threads.
// Engine::Create() passes the real ones.

#ifndef MILLRACE_SERVER_PIPELINE_ENGINE_CORE_H_
#define MILLRACE_SERVER_PIPELINE_ENGINE_CORE_H_

#include <memory>

#include "server/pipeline/built_pipeline/built_pipeline.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/threads/thread_tuner.h"

namespace millrace::pipeline {

// How often and by which rule the numbers of threads change, where the engine's
// options let them. For tests.
struct EngineTuning {
  // Between two decisions: long enough to measure rates, short enough that a
  // new load is met after a few. A choice.
  absl::Duration interval = absl::Seconds(2);
  std::shared_ptr<ThreadPolicy> policy;  // null: a ThreadTuner
};

// As Engine::Create(), whose contract of errors and threads it has.
absl::StatusOr<std::unique_ptr<Engine>> CreateEngine(
    const Engine::Options& options, DatasetCatalog catalog,
    ImageStageFactory make_stage, EngineTuning tuning = {});

// Engine::Needs() with another way to make stages.
absl::StatusOr<MemoryNeeds> NeedsOf(const Engine::Options& options,
                                    const DatasetCatalog& catalog,
                                    const ImageStageFactory& make_stage);

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_ENGINE_CORE_H_
