#include "server/decode/decoder_digest.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/decode/image_decoder.h"
#include "xxhash.h"

namespace millrace::decode {
namespace {

// Collects the pixels and the sizes of images, one after the other.
class Pixels {
 public:
  absl::Status Add(absl::Span<const uint8_t> bytes) {
    const auto header = decoder_.Open(bytes, /*exif_transpose=*/true);
    if (!header.ok()) return header.status();
    AddNumber(header->width);
    AddNumber(header->height);
    AddNumber(header->max_divisor);
    for (int divisor = 1; divisor <= header->max_divisor; divisor *= 2) {
      const int64_t width = (header->width + divisor - 1) / divisor;
      const int64_t height = (header->height + divisor - 1) / divisor;
      for (const int channels : {1, 3}) {
        for (const DecodeRegion& region :
             {DecodeRegion{divisor, 0, 0, width, height, channels},
              DecodeRegion{divisor, width / 3, height / 3, 1 + width / 4,
                           1 + height / 4, channels}}) {
          if (absl::Status status = AddRegion(bytes, region); !status.ok()) {
            return status;
          }
        }
      }
    }
    return absl::OkStatus();
  }

  std::string Digest() const {
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(text_.data(), text_.size()));
    return absl::BytesToHexString(absl::string_view(
        reinterpret_cast<const char*>(digest.digest), sizeof(digest.digest)));
  }

 private:
  void AddNumber(int64_t number) {
    for (int i = 0; i < 8; ++i) {
      text_.push_back(
          static_cast<char>(static_cast<uint64_t>(number) >> 8 * i));
    }
  }

  absl::Status AddRegion(absl::Span<const uint8_t> bytes,
                         const DecodeRegion& region) {
    const auto header = decoder_.Open(bytes, /*exif_transpose=*/true);
    if (!header.ok()) return header.status();
    const auto image = decoder_.Decode(region);
    if (!image.ok()) return image.status();
    for (int64_t y = 0; y < region.height; ++y) {
      text_.append(
          reinterpret_cast<const char*>(image->data + y * image->stride),
          region.width * region.channels);
    }
    return absl::OkStatus();
  }

  ImageDecoder decoder_;
  std::string text_;
};

}  // namespace

absl::StatusOr<std::string> DigestOf(absl::Span<const ProbeImage> images) {
  Pixels pixels;
  for (const ProbeImage& image : images) {
    const absl::Status added =
        pixels.Add({reinterpret_cast<const uint8_t*>(image.bytes.data()),
                    image.bytes.size()});
    if (added.ok()) continue;
    return absl::InternalError(absl::StrCat(
        "the image decoders of this machine do not decode the built-in ",
        image.name, ": ", added.message(),
        "; reinstall libjpeg-turbo, libpng and libwebp"));
  }
  return pixels.Digest();
}

absl::StatusOr<std::string> DecoderDigest() {
  static const absl::StatusOr<std::string>& digest =
      *new absl::StatusOr<std::string>(DigestOf(ProbeImages()));
  return digest;
}

}  // namespace millrace::decode
