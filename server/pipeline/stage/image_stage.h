// ImageStage turns one stored image field into its place in a batch: it joins
// decode and augment for the image operators of a spec. It knows the crop
// before it decodes, so it decodes only what will be used.
//
// Thread-safe: Run() is const; each worker thread brings its own Scratch.
// The output is the same bytes on every CPU and for any number of threads.

#ifndef MILLRACE_SERVER_PIPELINE_STAGE_IMAGE_STAGE_H_
#define MILLRACE_SERVER_PIPELINE_STAGE_IMAGE_STAGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/aligned_buffer.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/augment/pixel_op.h"
#include "server/decode/large_image_gate.h"

namespace millrace::operators {
class Operators;
}  // namespace millrace::operators

namespace millrace::pipeline {

// A transform and its place in the spec: the place is part of the key of its
// random choices.
struct PlacedTransform {
  const Transform* transform;
  uint32_t place;
};

// What the transforms do not say.
struct ImageStageOptions {
  // How geometric transforms move the field.
  FieldRole::Role role = FieldRole::IMAGE;
  // MASK: what lies outside the image.
  uint8_t mask_fill = 0;
  // ReadSize() alone will be called: the transforms need not make one size.
  bool size_only = false;
  // Libraries whose transforms and decoders may be named; null: none. Must
  // outlive the stages and their scratch.
  const operators::Operators* operators = nullptr;
};

class ImageStage {
 public:
  // Decoder and resize buffers of one worker, kept from image to image. A
  // scratch of any stage works for every stage.
  class Scratch;

  // `transforms`: those of the spec that name this field and are computed for
  // each sample, in spec order. They are trusted: they have passed CheckSpec()
  // and fit the field, as those of a resolved spec, and `operators` has the
  // decoders and transforms that they name; defaults need not be written.
  // `field` is an encoded image, or a uint8 tensor [H, W, C] (raw pixels; then
  // no decode_image is among them).
  // InvalidArgument: the transforms do not make one size (not with size_only),
  // or an operator refuses its configuration.
  // Unimplemented: this version does not support a transform; names it and its
  // place. Internal: the field is no image. With the role BOXES_XYXY the stage
  // is that of server/pipeline/stage/box_stage.h.
  static absl::StatusOr<std::unique_ptr<ImageStage>> Create(
      const Field& field, absl::Span<const PlacedTransform> transforms,
      const ImageStageOptions& options = {});

  virtual ~ImageStage() = default;

  // [height, width, channels] of the uint8 result.
  virtual const std::vector<int64_t>& output_shape() const = 0;

  // Upper bound of what Scratch holds for a typical large image, for the
  // memory arithmetic. What larger images need beside it passes a gate
  // (Scratch::large). An image is a bad sample when its decoder alone, or the
  // image between two transforms, needs more than decode::kMaxDecodedBytes.
  virtual uint64_t max_scratch_bytes() const = 0;

  // What Run() keeps in the scratch beside that, whatever the sample: tensors
  // between operators.
  virtual uint64_t kept_bytes() const { return 0; }

  virtual std::unique_ptr<Scratch> NewScratch() const = 0;

  // The size of the stored image, upright, from its header. DataLoss as Run().
  virtual absl::StatusOr<augment::Size> ReadSize(
      absl::Span<const uint8_t> stored, Scratch& scratch) const {
    static_cast<void>(stored);
    static_cast<void>(scratch);
    return absl::UnimplementedError("the stage reads no image");
  }

  // Whether Run() leaves the stored image's size in the scratch.
  virtual bool leaves_size() const { return false; }

  // Fills `out` (the product of output_shape() bytes). `sample_key` fixes every
  // random choice. DataLoss: the bytes are no image, damaged, of a kind that is
  // not supported or absurdly large, a mask that is not as large as its image;
  // says why. Where the scratch has `large`: Unavailable, there is no memory
  // for so large an image now (LargeImages::wanted); FailedPrecondition, the
  // memory budget never has so much, which a larger budget has. `out` is then
  // unspecified.
  virtual absl::Status Run(absl::Span<const uint8_t> stored,
                           uint64_t sample_key, Scratch& scratch,
                           absl::Span<uint8_t> out) const = 0;
};

// Memory for what images need beside a thread's reserved scratch. The thread
// does not wait for the memory: without memory it gives the sample up for now.
struct LargeImages {
  decode::LargeImageGate* gate = nullptr;
  // What the thread holds: images within it pass without the gate.
  decode::LargeImageGate::Admission admission;
  // Set by a stage that found no room: run the sample again with an admission
  // to so many bytes.
  int64_t wanted = 0;
};

class ImageStage::Scratch {
 public:
  virtual ~Scratch() = default;
  // Seconds of this scratch's thread since the last call, then zeroed.
  struct Times {
    double decode_seconds = 0;
    double augment_seconds = 0;
  };
  virtual Times TakeTimes() = 0;

  // Where stages write what they have drawn for a sample. Not owned; null on
  // the way of training.
  augment::ParameterLog* log = nullptr;

  // Not owned. Null: Run() waits at a gate that the process has for all of
  // those.
  LargeImages* large = nullptr;

  // What ReadSize() says of an image: a stage that leaves_size() leaves it
  // here, that of a mask or boxes which belong to the image finds it here.
  augment::Size image_size;

  // Of operators on tensors (server/pipeline/stage/operator_stage.h).
  AlignedBuffer tensors[2];
  AlignedBuffer op;
  double operator_seconds = 0;  // not yet in TakeTimes()
};

// Scratch that serves every stage, for those that decode nothing themselves.
std::unique_ptr<ImageStage::Scratch> NewImageScratch();

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_STAGE_IMAGE_STAGE_H_
