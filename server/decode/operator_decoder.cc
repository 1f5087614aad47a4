#include "server/decode/operator_decoder.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/decode/limits.h"
#include "server/decode/memory_text.h"
#include "server/decode/pixel_rows.h"
#include "server/operators/operator_result.h"

namespace millrace::decode {

OperatorDecoder::OperatorDecoder(const operators::Operators::Decoder& decoder)
    : decoder_(decoder),
      who_(absl::StrCat("decoder ", decoder.ref.name(), " ",
                        decoder.ref.version())) {}

OperatorDecoder::~OperatorDecoder() {
  const millrace_decoder& f = decoder_.functions;
  if (has_state_ && f.free_state != nullptr) f.free_state(state_);
}

bool OperatorDecoder::Sniff(absl::Span<const uint8_t> bytes) const {
  return decoder_.functions.sniff({bytes.data(), bytes.size()}) != 0;
}

absl::Status OperatorDecoder::Refused(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(who_, ": ", what));
}

absl::Status OperatorDecoder::MakeState() {
  if (has_state_ || decoder_.functions.new_state == nullptr) {
    return absl::OkStatus();
  }
  operators::OperatorResult result;
  result = decoder_.functions.new_state(&state_, result.error());
  MR_RETURN_IF_ERROR(result.ToStatus(who_, absl::StatusCode::kInternal));
  has_state_ = true;
  return absl::OkStatus();
}

absl::StatusOr<ImageHeader> OperatorDecoder::Open(
    absl::Span<const uint8_t> bytes, bool read_orientation) {
  MR_RETURN_IF_ERROR(MakeState());
  bytes_ = {bytes.data(), bytes.size()};
  millrace_image_header said = {.struct_size = sizeof(millrace_image_header)};
  operators::OperatorResult result;
  result =
      decoder_.functions.read_header(state_, bytes_, &said, result.error());
  MR_RETURN_IF_ERROR(result.ToStatus(who_, absl::StatusCode::kDataLoss));
  if (said.channels != 1 && said.channels != 3) {
    return Refused(absl::StrCat("says that the image has ", said.channels,
                                " channels; it must have 1 or 3"));
  }
  if (said.width < 1 || said.height < 1 ||
      said.width > kMaxImagePixels / said.height) {
    return Refused(absl::StrCat("the image claims ", said.width, " x ",
                                said.height, " pixels; the maximum is ",
                                kMaxImagePixels));
  }
  if (said.memory_bytes < 0 || said.memory_bytes > kMaxDecodedBytes) {
    return Refused(
        said.memory_bytes < 0
            ? absl::StrCat("requests ", said.memory_bytes, " bytes of memory")
            : absl::StrCat("requests memory of ",
                           AboveMaximum(said.memory_bytes)));
  }
  if (said.orientation < 0 || said.orientation > 8) {
    return Refused(absl::StrCat("says that the orientation is ",
                                said.orientation, "; EXIF has 1 to 8"));
  }
  stored_channels_ = said.channels;
  memory_bytes_ = said.memory_bytes;
  ImageHeader header;
  header.width = said.width;
  header.height = said.height;
  header.whole_bytes = said.memory_bytes;
  header.decoded_channels = said.channels;
  if (read_orientation && said.orientation != 0) {
    header.orientation = said.orientation;
  }
  return header;
}

int64_t OperatorDecoder::BytesFor(const DecodeRegion& region) const {
  // The sides belong to an image below kMaxImagePixels, so the product does not
  // overflow.
  const int64_t pixels = region.width * region.height;
  return memory_bytes_ + pixels * region.channels +
         (region.channels != stored_channels_ ? pixels * stored_channels_ : 0);
}

absl::StatusOr<DecodedImage> OperatorDecoder::Decode(
    const DecodeRegion& region) {
  if (region.index && stored_channels_ != 1) {
    return Refused(
        "the image has colours; color: INDEX reads the numbers of a grey "
        "image");
  }
  const bool convert = region.channels != stored_channels_;
  const int64_t stride = region.width * region.channels;
  const int64_t stored_stride = region.width * stored_channels_;
  const int64_t needed = BytesFor(region);
  if (needed > kMaxDecodedBytes) {
    return Refused(absl::StrCat("decoding ", region.width, " x ", region.height,
                                " pixels needs ", AboveMaximum(needed)));
  }
  uint8_t* const out =
      pixels_.Reserve(stride * region.height + kDecodedReadSlack);
  uint8_t* const stored =
      convert ? stored_.Reserve(stored_stride * region.height) : out;
  if (out == nullptr || stored == nullptr) {
    return NoMemoryForPixels(needed);
  }
  const millrace_region asked = {.struct_size = sizeof(millrace_region),
                                 .left = region.left,
                                 .top = region.top,
                                 .width = region.width,
                                 .height = region.height};
  operators::OperatorResult result;
  result = decoder_.functions.decode(state_, bytes_, &asked, stored,
                                     stored_stride, result.error());
  MR_RETURN_IF_ERROR(result.ToStatus(who_, absl::StatusCode::kDataLoss));
  if (convert && region.channels == 1) {
    for (int64_t y = 0; y < region.height; ++y) {
      RgbRowToGray(stored + y * stored_stride, region.width, out + y * stride);
    }
  } else if (convert) {
    for (int64_t y = 0; y < region.height; ++y) {
      GrayRowToRgb(stored + y * stored_stride, region.width, out + y * stride);
    }
  }
  return DecodedImage{out, static_cast<ptrdiff_t>(stride)};
}

void OperatorDecoder::ReleaseAbove(size_t bytes) {
  stored_.ReleaseAbove(bytes);
  pixels_.ReleaseAbove(bytes);
}

}  // namespace millrace::decode
