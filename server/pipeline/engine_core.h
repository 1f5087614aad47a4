// The engine with another way to make image stages than ImageStage::Create (for
// tests).

#ifndef MILLRACE_SERVER_PIPELINE_ENGINE_CORE_H_
#define MILLRACE_SERVER_PIPELINE_ENGINE_CORE_H_

#include <memory>

#include "server/pipeline/built/built_pipeline.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/threads/thread_tuner.h"

namespace millrace {

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
