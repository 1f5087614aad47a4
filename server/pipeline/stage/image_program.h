// ImageProgram is what the image transforms of one field mean: how the stored
// bytes are decoded, and the phases that follow, each a chain of crops, resizes
// and flips or one operation on pixels. It is read from the spec once and runs
// nothing itself: server/pipeline/stage/image_stage.h does.
//
// Immutable after Read; thread-safe.
//
//   MR_ASSIGN_OR_RETURN(ImageProgram program,
//                       ImageProgram::Read(field, transforms, options));

#ifndef MILLRACE_SERVER_PIPELINE_STAGE_IMAGE_PROGRAM_H_
#define MILLRACE_SERVER_PIPELINE_STAGE_IMAGE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/augment/geometry_chain.h"
#include "server/augment/pixel_op.h"
#include "server/operators/operators.h"
#include "server/pipeline/stage/image_stage.h"

namespace millrace::pipeline {

struct ImageProgram {
  // Exactly one of the two.
  struct Phase {
    std::optional<augment::GeometryChain> geometry;
    std::unique_ptr<const augment::PixelOp> op;
  };

  // Trusts the transforms and refuses as ImageStage::Create does.
  static absl::StatusOr<ImageProgram> Read(
      const Field& field, absl::Span<const PlacedTransform> transforms,
      const ImageStageOptions& options);

  bool encoded = false;  // otherwise raw pixels of the size `raw`
  augment::Size raw;
  int channels = 3;
  FieldRole::Role role = FieldRole::IMAGE;
  bool index = false;  // decoded to class indices
  bool exact = false;
  bool exif_transpose = false;
  // Asked before the server's own; of options.operators.
  std::vector<const operators::Operators::Decoder*> decoders;

  // The first is geometry. The last geometry makes one size of every image
  // (with options.size_only maybe not).
  std::vector<Phase> phases;
  augment::Size output;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_STAGE_IMAGE_PROGRAM_H_
