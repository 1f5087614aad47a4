#include "tests/fuzz/fuzz_decode.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/logging.h"
#include "server/decode/image_decoder.h"

namespace millrace {
namespace {

// The region's pixels, each touched; empty when it cannot be decoded.
std::vector<uint8_t> Decoded(decode::ImageDecoder& decoder,
                             const std::vector<uint8_t>& bytes,
                             const decode::DecodeRegion& region) {
  std::vector<uint8_t> pixels;
  if (!decoder.Open(bytes, true).ok()) return pixels;
  auto image = decoder.Decode(region);
  CheckDecodeStatus(image.status());
  if (!image.ok()) return pixels;
  for (int64_t y = 0; y < region.height; ++y) {
    const uint8_t* row = image->data + y * image->stride;
    pixels.insert(pixels.end(), row, row + region.width * region.channels);
  }
  return pixels;
}

}  // namespace

void CheckDecodeStatus(const absl::Status& status) {
  MR_CHECK(status.ok() || status.code() == absl::StatusCode::kDataLoss ||
           status.code() == absl::StatusCode::kResourceExhausted)
      << status;
}

std::string AsSeed(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

bool FuzzDecode(decode::ImageFormat format, const uint8_t* data, size_t size) {
  if (decode::DetectImageFormat({data, size}) != format) return false;
  static decode::ImageDecoder* const decoder = new decode::ImageDecoder;
  // Its own allocation, so that a read past the end is seen.
  const std::vector<uint8_t> bytes(data, data + size);
  auto header = decoder->Open(bytes, true);
  CheckDecodeStatus(header.status());
  if (!header.ok()) return false;
  if (header->width * header->height > kMaxFuzzedPixels) return true;

  const uint32_t mix = static_cast<uint32_t>(size * 2654435761u);
  bool good = true;
  for (int divisor = 1; divisor <= header->max_divisor; divisor *= 2) {
    const int64_t width = (header->width + divisor - 1) / divisor;
    const int64_t height = (header->height + divisor - 1) / divisor;
    decode::DecodeRegion part;
    part.divisor = divisor;
    part.channels = mix & 1 ? 3 : 1;
    part.left = (mix >> 4) % width;
    part.top = (mix >> 8) % height;
    part.width = 1 + (mix >> 12) % (width - part.left);
    part.height = 1 + (mix >> 16) % (height - part.top);
    const std::vector<uint8_t> whole =
        Decoded(*decoder, bytes, {divisor, 0, 0, width, height, 3});
    const std::vector<uint8_t> pixels = Decoded(*decoder, bytes, part);
    good &= !whole.empty();
    if (whole.empty()) continue;
    // Less is read for a part, so it is whole where the whole is.
    MR_CHECK(!pixels.empty());
    if (part.channels != 3) continue;
    for (int64_t y = 0; y < part.height; ++y) {
      MR_CHECK(std::equal(&pixels[y * part.width * 3],
                          &pixels[y * part.width * 3] + part.width * 3,
                          &whole[((part.top + y) * width + part.left) * 3]))
          << "1/" << divisor << " at " << part.left << ", " << part.top << ": "
          << part.width << " x " << part.height << ", row " << y;
    }
  }
  if (decoder->Open(bytes, false).ok()) {
    decode::DecodeRegion numbers{1, 0, 0, header->width, header->height, 1};
    // Not turned here: the sides may have changed places.
    if (header->orientation > 4) std::swap(numbers.width, numbers.height);
    numbers.index = true;
    CheckDecodeStatus(decoder->Decode(numbers).status());
  }
  return good;
}

}  // namespace millrace
