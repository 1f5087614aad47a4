#include "server/pipeline/engine.h"

#include <utility>

#include "server/pipeline/engine_core.h"
#include "server/pipeline/operator_stage.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const Options& options,
                                                       DatasetCatalog catalog) {
  return CreateEngine(
      options, std::move(catalog),
      [operators = options.operators](
          const Field& field, absl::Span<const PlacedTransform> transforms,
          ImageStageOptions stage) {
        stage.operators = operators;
        return MakeFieldStage(field, transforms, stage);
      });
}

}  // namespace millrace
