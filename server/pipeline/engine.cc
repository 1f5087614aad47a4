#include "server/pipeline/engine.h"

#include <utility>

#include "common/status_macros.h"
#include "server/decode/decoder_digest.h"
#include "server/pipeline/engine_core.h"
#include "server/pipeline/stage/operator_stage.h"

namespace millrace::pipeline {

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
  Options known = options;
  if (known.decoder_digest.empty()) {
    MR_ASSIGN_OR_RETURN(known.decoder_digest, decode::DecoderDigest());
  }
  return CreateEngine(known, std::move(catalog), StagesOf(options));
}

absl::StatusOr<MemoryNeeds> Engine::Needs(const Options& options,
                                          const DatasetCatalog& catalog) {
  return NeedsOf(options, catalog, StagesOf(options));
}

}  // namespace millrace::pipeline
