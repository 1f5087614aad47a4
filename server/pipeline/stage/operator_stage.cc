#include "server/pipeline/stage/operator_stage.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/pipeline/stage/operator_transform.h"
#include "server/pipeline/stage/tensor_op.h"

namespace millrace::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

// Max bytes that each buffer keeps from sample to sample. Larger buffers are
// freed at once.
constexpr size_t kKeptBytes = 4 << 20;

class OperatorStage final : public ImageStage {
 public:
  OperatorStage(std::unique_ptr<ImageStage> image,
                std::vector<std::unique_ptr<const TensorOp>> ops)
      : image_(std::move(image)), ops_(std::move(ops)) {
    if (image_ != nullptr) kept_bytes_ = ops_.front()->input().bytes();
    for (size_t i = 0; i + 1 < ops_.size(); ++i) {
      kept_bytes_ += ops_[i]->result().bytes();
    }
    uint64_t scratch = 0;
    for (const auto& op : ops_)
      scratch = std::max(scratch, op->scratch_bytes());
    kept_bytes_ += scratch;
  }

  const std::vector<int64_t>& output_shape() const override {
    return ops_.back()->result().shape;
  }

  uint64_t max_scratch_bytes() const override {
    return image_ == nullptr ? 0 : image_->max_scratch_bytes();
  }
  uint64_t kept_bytes() const override { return kept_bytes_; }
  bool leaves_size() const override {
    return image_ != nullptr && image_->leaves_size();
  }

  std::unique_ptr<Scratch> NewScratch() const override {
    return NewImageScratch();
  }

  absl::Status Run(absl::Span<const uint8_t> stored, uint64_t sample_key,
                   Scratch& scratch, absl::Span<uint8_t> out) const override {
    absl::Span<const uint8_t> in = stored;
    int next = 0;  // index into scratch.tensors
    if (image_ != nullptr) {
      const uint64_t bytes = ops_.front()->input().bytes();
      uint8_t* const image = scratch.tensors[next].Reserve(bytes);
      if (image == nullptr) return NoMemory(bytes);
      const absl::Span<uint8_t> pixels(image, bytes);
      MR_RETURN_IF_ERROR(image_->Run(stored, sample_key, scratch, pixels));
      in = pixels;
      next = 1;
    }
    const Clock::time_point start = Clock::now();
    absl::Status status = Transform(in, sample_key, scratch, next, out);
    scratch.operator_seconds +=
        std::chrono::duration<double>(Clock::now() - start).count();
    for (AlignedBuffer& buffer : scratch.tensors) {
      buffer.ReleaseAbove(kKeptBytes);
    }
    scratch.op.ReleaseAbove(kKeptBytes);
    return status;
  }

 private:
  static absl::Status NoMemory(uint64_t bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a tensor of ", FormatByteSize(bytes)));
  }

  absl::Status Transform(absl::Span<const uint8_t> in, uint64_t sample_key,
                         Scratch& scratch, int next,
                         absl::Span<uint8_t> out) const {
    augment::OpContext context;
    context.sample_key = sample_key;
    context.scratch = &scratch.op;
    context.log = scratch.log;
    for (size_t i = 0; i < ops_.size(); ++i) {
      absl::Span<uint8_t> to = out;
      if (i + 1 < ops_.size()) {
        const uint64_t bytes = ops_[i]->result().bytes();
        uint8_t* const buffer = scratch.tensors[next].Reserve(bytes);
        if (buffer == nullptr) return NoMemory(bytes);
        to = absl::Span<uint8_t>(buffer, bytes);
        next = 1 - next;
      }
      MR_RETURN_IF_ERROR(ops_[i]->Apply(in, context, to));
      in = to;
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<ImageStage> image_;  // null: input is the stored bytes
  const std::vector<std::unique_ptr<const TensorOp>> ops_;  // at least one
  uint64_t kept_bytes_ = 0;
};

bool IsTensorOperator(const PlacedTransform& placed) {
  return placed.transform->has_custom() &&
         placed.transform->custom().result_dtype() != DTYPE_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageStage>> MakeFieldStage(
    const Field& field, absl::Span<const PlacedTransform> transforms,
    const ImageStageOptions& options) {
  const auto first =
      std::find_if(transforms.begin(), transforms.end(), &IsTensorOperator);
  const size_t images = static_cast<size_t>(first - transforms.begin());
  if (images == transforms.size()) {
    return ImageStage::Create(field, transforms, options);
  }
  std::unique_ptr<ImageStage> image;
  TensorType type = {field.dtype(),
                     {field.shape().begin(), field.shape().end()}};
  if (images > 0) {
    MR_ASSIGN_OR_RETURN(
        image,
        ImageStage::Create(field, transforms.subspan(0, images), options));
    const bool boxes = options.role == FieldRole::BOXES_XYXY;
    type = {boxes ? DTYPE_FLOAT32 : DTYPE_UINT8, image->output_shape()};
  }
  std::vector<std::unique_ptr<const TensorOp>> ops;
  for (const PlacedTransform& placed : transforms.subspan(images)) {
    const CustomTransform& custom = placed.transform->custom();
    // ResolveSpec() refuses transforms of images behind the first of them.
    MR_CHECK(IsTensorOperator(placed)) << placed.place;
    MR_ASSIGN_OR_RETURN(auto op, MakeOperatorTensorOp(
                                     LoadedTransform(options.operators, custom),
                                     custom, placed.place, type));
    const TensorType said = {
        custom.result_dtype(),
        {custom.result_shape().begin(), custom.result_shape().end()}};
    type = op->result();
    if (!(said == type)) {
      return absl::InternalError(absl::StrCat(
          "transforms[", placed.place, "]: the operator ", custom.name(),
          " produces another type than when the spec was resolved"));
    }
    ops.push_back(std::move(op));
  }
  return std::make_unique<OperatorStage>(std::move(image), std::move(ops));
}

}  // namespace millrace::pipeline
