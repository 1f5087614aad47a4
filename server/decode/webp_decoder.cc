#include "server/decode/webp_decoder.h"

#include <webp/decode.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/decode/exif.h"
#include "server/decode/limits.h"
#include "server/decode/memory_text.h"
#include "server/decode/pixel_rows.h"
#include "server/decode/webp_memory.h"

namespace millrace::decode {
namespace {

// Max memory of libwebp for a lossless file of `file_bytes`, in addition to the
// pixels in whole_bytes. First, Huffman tables of up to 20 KB for a group:
// encoders write at most 2,600 groups, and each group takes bytes of the file.
// Second, the pictures of two transforms and of the groups: each has up to one
// pixel of 4 bytes for 4 x 4 pixels, whatever the size of the file.
int64_t LosslessWorkingBytes(size_t file_bytes, int64_t pixels) {
  constexpr int64_t kMin = 4 << 20;
  constexpr int64_t kMax = 64 << 20;
  constexpr size_t kPerFileByte = 64;
  const int64_t tables =
      file_bytes > kMax / kPerFileByte
          ? kMax
          : std::min<int64_t>(kMax, kMin + file_bytes * kPerFileByte);
  return tables + pixels;
}

// The same for a lossy file, whatever its size.
constexpr int64_t kLossyWorkingBytes = 1 << 20;

absl::Status StatusOf(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_OK:
      return absl::OkStatus();
    case VP8_STATUS_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError("no memory for a WebP decoder");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return absl::DataLossError(
          "the WebP is truncated: the data of its picture end early");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return absl::DataLossError(
          "the WebP has a feature that libwebp does not support");
    default:
      return absl::DataLossError(
          absl::StrCat("the WebP is damaged: libwebp reports a bad bit stream "
                       "(status ",
                       static_cast<int>(code), ")"));
  }
}

}  // namespace

void WebpDecoder::ReleaseAbove(size_t bytes) {
  pixels_.ReleaseAbove(bytes);
  rgb_.ReleaseAbove(bytes);
}

absl::StatusOr<ImageHeader> WebpDecoder::Open(absl::Span<const uint8_t> bytes,
                                              bool read_orientation) {
  MR_ASSIGN_OR_RETURN(file_, ReadWebpContainer(bytes));
  WebPBitstreamFeatures features;
  MR_RETURN_IF_ERROR(StatusOf(
      WebPGetFeatures(file_.picture.data(), file_.picture.size(), &features)));
  picture_width_ = features.width;
  picture_height_ = features.height;
  if (file_.canvas_width == 0) {
    file_.canvas_width = picture_width_;
    file_.canvas_height = picture_height_;
  }
  if (!file_.animated) {
    file_.frame_width = file_.canvas_width;
    file_.frame_height = file_.canvas_height;
  }
  if (file_.frame_width != picture_width_ ||
      file_.frame_height != picture_height_) {
    return absl::DataLossError(
        absl::StrCat("the WebP is damaged: its headers say ", file_.frame_width,
                     " x ", file_.frame_height, " pixels, its picture says ",
                     picture_width_, " x ", picture_height_));
  }
  if (file_.frame_left + picture_width_ > file_.canvas_width ||
      file_.frame_top + picture_height_ > file_.canvas_height) {
    return absl::DataLossError(
        "the WebP is damaged: its first frame is outside the canvas");
  }
  ImageHeader header;
  header.width = file_.canvas_width;
  header.height = file_.canvas_height;
  if (header.width * header.height > kMaxImagePixels) {  // each below 2^25
    return absl::DataLossError(
        absl::StrCat("the WebP claims ", header.width, " x ", header.height,
                     " pixels; the maximum is ", kMaxImagePixels));
  }
  // libwebp keeps all pixels of a lossless picture, 4 bytes each, and 17 rows
  // more. Of a lossy picture it keeps some rows.
  constexpr int64_t kLossyBytesPerColumn = 128;
  whole_bytes_ = file_.lossless ? 4 * picture_width_ * (picture_height_ + 17)
                                : kLossyBytesPerColumn * picture_width_;
  working_bytes_ = file_.lossless
                       ? LosslessWorkingBytes(file_.picture.size(),
                                              picture_width_ * picture_height_)
                       : kLossyWorkingBytes;
  header.whole_bytes = whole_bytes_ + working_bytes_;
  header.decoded_channels = 3;
  if (picture_width_ != header.width || picture_height_ != header.height) {
    // The picture is drawn onto the canvas from separate memory, in any colour
    // format.
    header.whole_bytes += 3 * picture_width_ * picture_height_;
  }
  if (read_orientation) {
    header.orientation = ImageOrientation(file_.exif, file_.xmp);
  }
  return header;
}

absl::Status WebpDecoder::DecodeBox(const Box& box, int64_t memory, uint8_t* to,
                                    int64_t stride) const {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) {
    return absl::InternalError("libwebp is of another version than its header");
  }
  config.options.use_cropping =
      box.width != picture_width_ || box.height != picture_height_;
  config.options.crop_left = static_cast<int>(box.left);
  config.options.crop_top = static_cast<int>(box.top);
  config.options.crop_width = static_cast<int>(box.width);
  config.options.crop_height = static_cast<int>(box.height);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = to;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = stride * box.height;
  const WebpMemoryBudget budget(memory);
  const VP8StatusCode code =
      WebPDecode(file_.picture.data(), file_.picture.size(), &config);
  // libwebp may report the lack of memory as a bad bit stream.
  if (budget.exceeded()) {
    return absl::DataLossError(
        "the WebP needs more memory for its tables than a picture of its size "
        "should; it is damaged or malicious");
  }
  return StatusOf(code);
}

WebpDecoder::Parts WebpDecoder::PartsOf(const DecodeRegion& region) const {
  Parts p;
  p.left = std::max<int64_t>(0, region.left - file_.frame_left);
  p.top = std::max<int64_t>(0, region.top - file_.frame_top);
  p.right =
      std::min(picture_width_, region.left + region.width - file_.frame_left);
  p.bottom =
      std::min(picture_height_, region.top + region.height - file_.frame_top);
  p.nothing = p.left >= p.right || p.top >= p.bottom;
  p.covered =
      p.right - p.left == region.width && p.bottom - p.top == region.height;

  // Chroma of a lossy picture is interpolated, so pixels at the edge of a crop
  // lack their neighbours: two more pixels are decoded on each inner side.
  // libwebp would round left and top to even numbers; they are even already.
  p.box = {p.left, p.top, p.right - p.left, p.bottom - p.top};
  if (!file_.lossless && !p.nothing) {
    constexpr int64_t kMargin = 2;
    p.box.left = std::max<int64_t>(0, (p.left - kMargin) & ~int64_t{1});
    p.box.top = std::max<int64_t>(0, (p.top - kMargin) & ~int64_t{1});
    p.box.width = std::min(picture_width_, p.right + kMargin) - p.box.left;
    p.box.height = std::min(picture_height_, p.bottom + kMargin) - p.box.top;
  }
  p.box_bytes = p.nothing ? 0 : p.box.width * 3 * p.box.height;
  p.direct = p.covered && region.channels == 3;
  p.region_bytes =
      p.direct ? 0 : region.width * region.channels * region.height;
  return p;
}

int64_t WebpDecoder::BytesFor(const DecodeRegion& region) const {
  const Parts p = PartsOf(region);
  return p.box_bytes + p.region_bytes + whole_bytes_;
}

absl::StatusOr<DecodedImage> WebpDecoder::Decode(const DecodeRegion& region) {
  const Parts p = PartsOf(region);
  const int64_t channels = region.channels;
  const int64_t box_stride = p.box.width * 3;
  const int64_t stride = region.width * channels;
  const int64_t needed = BytesFor(region);
  if (needed > kMaxDecodedBytes) {
    return absl::DataLossError(absl::StrCat(
        "decoding the WebP of ", file_.canvas_width, " x ", file_.canvas_height,
        " pixels", file_.lossless ? " (lossless)" : "", " needs ",
        AboveMaximum(needed)));
  }
  AlignedBuffer& decoded = p.direct ? pixels_ : rgb_;
  uint8_t* const rgb = decoded.Reserve(p.box_bytes + kDecodedReadSlack);
  uint8_t* const pixels =
      p.direct ? rgb : pixels_.Reserve(p.region_bytes + kDecodedReadSlack);
  if (rgb == nullptr || pixels == nullptr) {
    return NoMemoryForPixels(needed);
  }
  if (!p.covered) std::memset(pixels, 0, p.region_bytes);
  if (p.nothing) return DecodedImage{pixels, stride};
  // Most pictures need far less than working_bytes_.
  const int64_t memory =
      std::min(whole_bytes_ + working_bytes_,
               kMaxDecodedBytes - p.box_bytes - p.region_bytes);
  MR_RETURN_IF_ERROR(DecodeBox(p.box, memory, rgb, box_stride));
  const uint8_t* const from =
      rgb + (p.top - p.box.top) * box_stride + (p.left - p.box.left) * 3;
  if (p.direct) return DecodedImage{from, box_stride};
  uint8_t* const to = pixels + (p.top + file_.frame_top - region.top) * stride +
                      (p.left + file_.frame_left - region.left) * channels;
  const int64_t width = p.right - p.left;
  for (int64_t y = 0; y < p.bottom - p.top; ++y) {
    if (channels == 3) {
      std::memcpy(to + y * stride, from + y * box_stride, width * 3);
    } else {
      RgbRowToGray(from + y * box_stride, width, to + y * stride);
    }
  }
  return DecodedImage{pixels, stride};
}

}  // namespace millrace::decode
