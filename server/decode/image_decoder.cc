#include "server/decode/image_decoder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/decode/memory_text.h"

namespace millrace::decode {
namespace {

// An EXIF orientation as steps from the upright to the stored image: swap the
// axes, then mirror the stored columns, then the stored rows.
struct Turn {
  bool swap;
  bool mirror_x;
  bool mirror_y;
};

Turn TurnOf(int orientation) {
  switch (orientation) {
    case 2:
      return {false, true, false};
    case 3:
      return {false, true, true};
    case 4:
      return {false, false, true};
    case 5:
      return {true, false, false};
    case 6:
      return {true, false, true};
    case 7:
      return {true, true, true};
    case 8:
      return {true, true, false};
    default:
      return {false, false, false};
  }
}

}  // namespace

OperatorDecoder& ImageDecoder::Of(
    const operators::Operators::Decoder& decoder) {
  for (const std::unique_ptr<OperatorDecoder>& known : operators_) {
    if (&known->decoder() == &decoder) return *known;
  }
  return *operators_.emplace_back(std::make_unique<OperatorDecoder>(decoder));
}

absl::StatusOr<ImageHeader> ImageDecoder::OpenStored(
    absl::Span<const uint8_t> bytes, bool exif_transpose,
    absl::Span<const operators::Operators::Decoder* const> operators) {
  operator_ = nullptr;
  for (const operators::Operators::Decoder* decoder : operators) {
    OperatorDecoder& candidate = Of(*decoder);
    if (!candidate.Sniff(bytes)) continue;
    operator_ = &candidate;
    return candidate.Open(bytes, exif_transpose);
  }
  format_ = DetectImageFormat(bytes);
  switch (format_) {
    case ImageFormat::kUnknown:
      return UnknownImageError(bytes);
    case ImageFormat::kJpeg:
      return jpeg_.Open(bytes, exif_transpose);
    case ImageFormat::kPng:
      return png_.Open(bytes, exif_transpose);
    case ImageFormat::kWebp:
      return webp_.Open(bytes, exif_transpose);
  }
  return absl::InternalError("an image format without a decoder");
}

absl::StatusOr<ImageHeader> ImageDecoder::Open(
    absl::Span<const uint8_t> bytes, bool exif_transpose,
    absl::Span<const operators::Operators::Decoder* const> operators) {
  MR_ASSIGN_OR_RETURN(header_, OpenStored(bytes, exif_transpose, operators));
  if (TurnOf(header_.orientation).swap) {
    std::swap(header_.width, header_.height);
  }
  // A mirrored image is not divided into the same pixels.
  if (header_.orientation != 1) header_.max_divisor = 1;
  return header_;
}

absl::StatusOr<DecodedImage> ImageDecoder::DecodeStored(
    const DecodeRegion& region) {
  if (operator_ != nullptr) return operator_->Decode(region);
  if (region.index && format_ != ImageFormat::kPng) {
    return absl::DataLossError(absl::StrCat(
        "the image is a ", format_ == ImageFormat::kJpeg ? "JPEG" : "WebP",
        ", which stores colours; color: INDEX reads the class numbers of a "
        "palette PNG or a grey PNG"));
  }
  switch (format_) {
    case ImageFormat::kJpeg:
      return jpeg_.Decode(region);
    case ImageFormat::kWebp:
      return webp_.Decode(region);
    default:
      return png_.Decode(region);
  }
}

DecodeRegion ImageDecoder::StoredRegion(const DecodeRegion& region) const {
  const Turn turn = TurnOf(header_.orientation);
  DecodeRegion stored = region;
  int64_t stored_width = header_.width;
  int64_t stored_height = header_.height;
  if (turn.swap) {
    std::swap(stored.left, stored.top);
    std::swap(stored.width, stored.height);
    std::swap(stored_width, stored_height);
  }
  if (turn.mirror_x) stored.left = stored_width - stored.left - stored.width;
  if (turn.mirror_y) stored.top = stored_height - stored.top - stored.height;
  return stored;
}

int64_t ImageDecoder::BytesFor(const DecodeRegion& region) const {
  const DecodeRegion stored = StoredRegion(region);
  if (operator_ != nullptr) return operator_->BytesFor(stored);
  switch (format_) {
    case ImageFormat::kJpeg:
      return jpeg_.BytesFor(stored);
    case ImageFormat::kWebp:
      return webp_.BytesFor(stored);
    default:
      return png_.BytesFor(stored);
  }
}

absl::StatusOr<DecodedImage> ImageDecoder::Decode(const DecodeRegion& region) {
  if (header_.orientation == 1) return DecodeStored(region);
  const Turn turn = TurnOf(header_.orientation);
  const DecodeRegion stored = StoredRegion(region);
  MR_ASSIGN_OR_RETURN(DecodedImage image, DecodeStored(stored));

  const int64_t channels = region.channels;
  const int64_t stride = region.width * channels;
  uint8_t* to = upright_.Reserve(stride * region.height + kDecodedReadSlack);
  if (to == nullptr) return NoMemoryForPixels(stride * region.height);
  for (int64_t y = 0; y < region.height; ++y) {
    for (int64_t x = 0; x < region.width; ++x) {
      int64_t from_x = turn.swap ? y : x;
      int64_t from_y = turn.swap ? x : y;
      if (turn.mirror_x) from_x = stored.width - 1 - from_x;
      if (turn.mirror_y) from_y = stored.height - 1 - from_y;
      const uint8_t* from =
          image.data + from_y * image.stride + from_x * channels;
      for (int64_t c = 0; c < channels; ++c) *to++ = from[c];
    }
  }
  return DecodedImage{upright_.data(), stride};
}

void ImageDecoder::ReleaseAbove(size_t bytes) {
  jpeg_.ReleaseAbove(bytes);
  png_.ReleaseAbove(bytes);
  webp_.ReleaseAbove(bytes);
  for (const auto& decoder : operators_) decoder->ReleaseAbove(bytes);
  upright_.ReleaseAbove(bytes);
}

size_t ImageDecoder::kept_bytes() const {
  size_t bytes = jpeg_.kept_bytes() + png_.kept_bytes() + webp_.kept_bytes() +
                 upright_.capacity();
  for (const auto& decoder : operators_) bytes += decoder->kept_bytes();
  return bytes;
}

}  // namespace millrace::decode
