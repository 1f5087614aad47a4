#include "server/plan/transforms/traced_field.h"

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "server/plan/bytes_as_images.h"
#include "server/plan/image_field.h"

namespace millrace::plan {

absl::Status TracedField::Refuse(absl::string_view text) const {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": field ", field.name(), " ", text));
}

absl::Status TracedField::RefuseAsNoImage() const {
  return Refuse(absl::StrCat(
      "is not an image (encoded, or raw uint8 [height, width, channels])",
      HoldsBytes(field) ? absl::StrCat(" but contains bytes or strings; ",
                                       BytesAsImages(field))
                        : ""));
}

bool TracedField::IsImage() const {
  if (operator_result) {
    return trace.dtype == DTYPE_UINT8 && trace.shape->size() == 3;
  }
  return plan::IsImage(field);
}

int64_t TracedField::Channels() const {
  if (operator_result) return IsImage() ? (*trace.shape)[2] : 0;
  if (encoded()) return decoded_channels;
  return IsImage() ? field.shape(2) : 0;
}

std::optional<ValueRange> TracedField::Values(DType dtype) const {
  if (is_class()) return ValuesOfClasses(field.num_classes());
  return ValuesOf(dtype);
}

absl::Status TracedField::NeedDecoded() const {
  if (!encoded() || decoded_channels != 0) return absl::OkStatus();
  return Refuse("holds encoded images: put decode_image first");
}

absl::Status TracedField::NeedPixels() const {
  return IsImage() ? NeedDecoded() : RefuseAsNoImage();
}

absl::Status TracedField::NeedOneOrThreeChannels() const {
  if (Channels() == 1 || Channels() == 3) return absl::OkStatus();
  return Refuse(absl::StrCat("has ", CountText(Channels(), "channel"),
                             ": this transform works on 1 or 3 channels"));
}

absl::Status TracedField::NeedPerChannel(absl::string_view name, int n) const {
  if (n <= 1 || n == Channels()) return absl::OkStatus();
  // A mask has its own fill (FieldRole.fill).
  if (trace.role == FieldRole::MASK) return absl::OkStatus();
  return Refuse(absl::StrCat("has ", CountText(Channels(), "channel"), ", ",
                             name, " has ", n,
                             " values: write one, or one for each channel"));
}

absl::Status TracedField::Fix(int64_t height, int64_t width) {
  trace.shape = std::vector<int64_t>{height, width, Channels()};
  short_side.reset();
  return absl::OkStatus();
}

}  // namespace millrace::plan
