#include "server/pipeline/engine.h"

#include <utility>

#include "server/pipeline/engine_core.h"
#include "server/pipeline/image_stage.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const Options& options,
                                                       DatasetCatalog catalog) {
  return CreateEngine(options, std::move(catalog), &ImageStage::Create);
}

}  // namespace millrace
