#include "server/pipeline/stage/image_program.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/pipeline/stage/transform_ops.h"
#include "server/plan/image_field.h"

namespace millrace::pipeline {
namespace {

// Makes the operations of one field's transforms, in their order.
class ProgramReader {
 public:
  ProgramReader(ImageProgram& program, const ImageStageOptions& options)
      : program_(program), options_(options) {
    if (!program.encoded) size_ = program.raw;
  }

  absl::Status Read(const PlacedTransform& placed) {
    if (placed.transform->has_decode_image()) {
      ReadDecode(placed.transform->decode_image());
      return absl::OkStatus();
    }
    if (auto op = GeometryOf(placed, options_)) {
      ops_.push_back(*std::move(op));
      return absl::OkStatus();
    }
    return AddPixelOp(placed);
  }

  absl::Status Finish() {
    if (!ops_.empty() || program_.phases.empty()) EndGeometry();
    if (options_.size_only) return absl::OkStatus();
    if (!size_.has_value()) {
      return absl::InvalidArgumentError(
          "no transform gives the images one size, but a batch needs one size");
    }
    program_.output = *size_;
    return absl::OkStatus();
  }

 private:
  void ReadDecode(const DecodeImage& decode) {
    program_.channels = decode.color() == DecodeImage::RGB ? 3 : 1;
    program_.index = decode.color() == DecodeImage::INDEX;
    program_.exact = decode.mode() == DecodeImage::EXACT;
    program_.exif_transpose = decode.exif_transpose();
    for (const OperatorRef& ref : decode.decoders()) {
      // ResolveSpec() has found each decoder among the loaded operators.
      MR_CHECK(options_.operators != nullptr) << ref.name();
      program_.decoders.push_back(options_.operators->FindDecoder(ref.name()));
      MR_CHECK(program_.decoders.back() != nullptr) << ref.name();
    }
  }

  absl::Status AddPixelOp(const PlacedTransform& placed) {
    MR_ASSIGN_OR_RETURN(auto op,
                        MakePixelOp(placed, program_.channels, options_));
    // Pixel operations change memory of the worker, so the first phase copies
    // the image there.
    if (!ops_.empty() || program_.phases.empty()) EndGeometry();
    program_.phases.push_back({std::nullopt, std::move(op)});
    return absl::OkStatus();
  }

  void EndGeometry() {
    augment::GeometryChain chain(std::exchange(ops_, {}), size_);
    size_ = chain.output();
    program_.phases.push_back({std::move(chain), nullptr});
  }

  ImageProgram& program_;
  const ImageStageOptions& options_;
  std::optional<augment::Size> size_;     // if all images have the same
  std::vector<augment::GeometryOp> ops_;  // of the phase in progress
};

}  // namespace

absl::StatusOr<ImageProgram> ImageProgram::Read(
    const Field& field, absl::Span<const PlacedTransform> transforms,
    const ImageStageOptions& options) {
  ImageProgram program;
  program.role = options.role;
  if (field.kind() == FIELD_KIND_ENCODED_IMAGE) {
    program.encoded = true;
  } else if (plan::IsRawImage(field)) {
    program.raw = {field.shape(1), field.shape(0)};
    program.channels = static_cast<int>(field.shape(2));
  } else {
    return absl::InternalError(
        absl::StrCat("field \"", field.name(), "\" is not an image"));
  }
  ProgramReader reader(program, options);
  for (const PlacedTransform& placed : transforms) {
    MR_RETURN_IF_ERROR(reader.Read(placed));
  }
  if (absl::Status status = reader.Finish(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("field \"", field.name(),
                                                    "\": ", status.message()));
  }
  return program;
}

}  // namespace millrace::pipeline
