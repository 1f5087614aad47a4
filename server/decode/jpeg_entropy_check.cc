#include "server/decode/jpeg_entropy_check.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/decode/image_format.h"
#include "server/decode/probe_images.h"

namespace millrace::decode {
namespace {

absl::StatusOr<DecodedImage> DecodeRegionOf(absl::string_view name,
                                            absl::Span<const uint8_t> jpeg,
                                            const DecodeRegion& region,
                                            JpegDecoder& decoder) {
  absl::StatusOr<DecodedImage> image = DecodedImage{};
  const auto header = decoder.Open(jpeg, false);
  if (header.ok()) {
    image = decoder.Decode(region);
  } else {
    image = header.status();
  }
  if (image.ok()) return image;
  return absl::InternalError(absl::StrCat(
      "the built-in ", name, " does not decode: ", image.status().message()));
}

}  // namespace

absl::Status SameJpegPixels(absl::string_view name,
                            absl::Span<const uint8_t> jpeg,
                            JpegDecoder& reference, JpegDecoder& decoder) {
  MR_ASSIGN_OR_RETURN(const ImageHeader header, reference.Open(jpeg, false));
  for (int divisor = 1; divisor <= header.max_divisor; divisor *= 2) {
    const int64_t width = (header.width + divisor - 1) / divisor;
    const int64_t height = (header.height + divisor - 1) / divisor;
    const DecodeRegion regions[] = {
        {divisor, 0, 0, width, height, 3},
        {divisor, width / 3, height / 3, 1 + width / 4, 1 + height / 4, 3}};
    for (const DecodeRegion& region : regions) {
      MR_ASSIGN_OR_RETURN(const DecodedImage a,
                          DecodeRegionOf(name, jpeg, region, reference));
      MR_ASSIGN_OR_RETURN(const DecodedImage b,
                          DecodeRegionOf(name, jpeg, region, decoder));
      for (int64_t y = 0; y < region.height; ++y) {
        if (std::memcmp(a.data + y * a.stride, b.data + y * b.stride,
                        region.width * region.channels) != 0) {
          return absl::InternalError(absl::StrCat(
              "the pixels of the built-in ", name, " differ from libjpeg's"));
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFastEntropy() {
  JpegDecoder library(JpegDecoder::Entropy::kLibrary);
  JpegDecoder fast(JpegDecoder::Entropy::kFast);
  bool used = false;
  for (const ProbeImage& probe : ProbeImages()) {
    const absl::Span<const uint8_t> bytes(
        reinterpret_cast<const uint8_t*>(probe.bytes.data()),
        probe.bytes.size());
    if (DetectImageFormat(bytes) != ImageFormat::kJpeg) continue;
    MR_RETURN_IF_ERROR(SameJpegPixels(probe.name, bytes, library, fast));
    used |= fast.used_fast_entropy();
  }
  if (!used) {
    return absl::InternalError(
        "the layout of libjpeg's entropy decoder differs from that of "
        "libjpeg-turbo 2");
  }
  return absl::OkStatus();
}

JpegDecoder::Entropy CheckedJpegEntropy() {
  static const JpegDecoder::Entropy checked = [] {
    const absl::Status status = CheckFastEntropy();
    if (status.ok()) return JpegDecoder::Entropy::kFast;
    MR_LOG(WARNING) << "JPEGs are decoded by libjpeg's slower Huffman decoder, "
                       "because the loaded libjpeg is not a known version: "
                    << status.message()
                    << "; install libjpeg-turbo 2.1 for full speed";
    return JpegDecoder::Entropy::kLibrary;
  }();
  return checked;
}

}  // namespace millrace::decode
