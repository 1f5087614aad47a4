#include "server/pipeline/engine.h"

#include <utility>

#include "server/pipeline/engine_core.h"
#include "server/pipeline/operator_stage.h"

namespace millrace {

namespace {

ImageStageFactory StagesOf(const Engine::Options& options) {
  return [operators = options.operators](
             const Field& field, absl::Span<const PlacedTransform> transforms,
             ImageStageOptions stage) {
    stage.operators = operators;
    return MakeFieldStage(field, transforms, stage);
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const Options& options,
                                                       DatasetCatalog catalog) {
  return CreateEngine(options, std::move(catalog), StagesOf(options));
}

absl::StatusOr<MemoryNeeds> Engine::Needs(const Options& options,
                                          const DatasetCatalog& catalog) {
  return NeedsOf(options, catalog, StagesOf(options));
}

}  // namespace millrace
