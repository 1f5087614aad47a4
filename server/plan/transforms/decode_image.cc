#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

absl::Status Decode(const DecodeImage& decode, TracedField& field) {
  if (!field.IsImage()) return field.RefuseAsNoImage();
  if (!field.encoded()) {
    return field.Refuse(
        "contains raw pixels, which need no decoding: remove decode_image");
  }
  field.decoded_channels = decode.color() == DecodeImage::RGB ? 3 : 1;
  field.trace.why_not_fixed =
      "has images of different sizes: add a transform that makes the sizes "
      "equal, such as random_resized_crop or center_crop";
  return absl::OkStatus();
}

}  // namespace

TransformKind DecodeImageKind() {
  TransformKind kind(Transform::kDecodeImage);
  kind.phase = TransformPhase::kDecode;
  kind.Plain("field", "`image`");
  kind.Plain("color", "`RGB`");
  kind.Plain("mode", "`SCALED`");
  kind.Plain("exif_transpose", "false");
  kind.Plain("decoders", "none");
  kind.Trace(&Decode);
  return kind;
}

}  // namespace millrace::plan
