#include "tests/fuzz/decode_target.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "common/logging.h"
#include "server/decode/image_decoder.h"
#include "server/pipeline/image_stage.h"

namespace millrace {
namespace {

// A claimed size beyond this is only opened: decoding it is right but slow.
constexpr int64_t kMaxFuzzedPixels = 1 << 20;

void CheckCode(const absl::Status& status) {
  MR_CHECK(status.ok() || status.code() == absl::StatusCode::kDataLoss ||
           status.code() == absl::StatusCode::kResourceExhausted)
      << status;
}

std::unique_ptr<ImageStage> MakeStage() {
  Transform decode;
  decode.mutable_decode_image()->set_exif_transpose(true);
  Transform crop;
  crop.mutable_random_resized_crop()->set_height(24);
  crop.mutable_random_resized_crop()->set_width(32);
  Transform flip;
  flip.mutable_horizontal_flip();
  const std::vector<PlacedTransform> placed = {
      {&decode, 0}, {&crop, 1}, {&flip, 2}};
  Field field;
  field.set_name("image");
  field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  auto stage = ImageStage::Create(field, placed);
  MR_CHECK(stage.ok()) << stage.status();
  return *std::move(stage);
}

}  // namespace

bool FuzzDecode(const uint8_t* data, size_t size) {
  static ImageDecoder* const decoder = new ImageDecoder;
  static const ImageStage* const stage = MakeStage().release();
  static ImageStage::Scratch* const scratch = stage->NewScratch().release();
  // Its own allocation, so that a read past the end is seen.
  const std::vector<uint8_t> bytes(data, data + size);
  auto header = decoder->Open(bytes, true);
  CheckCode(header.status());
  if (!header.ok()) return false;
  if (header->width * header->height > kMaxFuzzedPixels) return true;

  const uint32_t mix = static_cast<uint32_t>(size * 2654435761u);
  bool good = true;
  for (int divisor = 1; divisor <= header->max_divisor; divisor *= 2) {
    const int64_t width = (header->width + divisor - 1) / divisor;
    const int64_t height = (header->height + divisor - 1) / divisor;
    DecodeRegion part;
    part.divisor = divisor;
    part.channels = mix & 1 ? 3 : 1;
    part.left = (mix >> 4) % width;
    part.top = (mix >> 8) % height;
    part.width = 1 + (mix >> 12) % (width - part.left);
    part.height = 1 + (mix >> 16) % (height - part.top);
    for (const DecodeRegion& region :
         {DecodeRegion{divisor, 0, 0, width, height, 3}, part}) {
      if (!decoder->Open(bytes, true).ok()) continue;
      auto image = decoder->Decode(region);
      CheckCode(image.status());
      good &= image.ok();
      // Every pixel is memory that may be read.
      uint32_t sum = 0;
      for (int64_t y = 0; image.ok() && y < region.height; ++y) {
        const uint8_t* row = image->data + y * image->stride;
        for (int64_t i = 0; i < region.width * region.channels; ++i) {
          sum += row[i];
        }
      }
      volatile uint32_t keep = sum;
      (void)keep;
    }
  }
  std::vector<uint8_t> out(24 * 32 * 3);
  CheckCode(stage->Run(bytes, mix, *scratch, absl::MakeSpan(out)));
  return good;
}

}  // namespace millrace
