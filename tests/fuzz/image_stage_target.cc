// Fuzz target of what happens to a stored image of any format in a pipeline:
// sizes and orientations that its header claims, crops and resizes of them.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/logging.h"
#include "proto/names.h"
#include "server/pipeline/image_stage.h"
#include "tests/fuzz/fuzz_decode.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"
#include "tests/testing/images/webp_writer.h"

namespace millrace {
namespace {

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

bool Run(const uint8_t* data, size_t size) {
  static const ImageStage* const stage = MakeStage().release();
  static ImageStage::Scratch* const scratch = stage->NewScratch().release();
  // Its own allocation, so that a read past the end is seen.
  const std::vector<uint8_t> bytes(data, data + size);
  std::vector<uint8_t> out(24 * 32 * 3);
  const absl::Status status =
      stage->Run(bytes, size * 2654435761u, *scratch, absl::MakeSpan(out));
  CheckDecodeStatus(status);
  return status.ok();
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (int i = 0; i < 6; ++i) {
    JpegKind jpeg;
    jpeg.width = 20 + i * 30;
    jpeg.height = 150 - 20 * i;
    jpeg.progressive = i % 2 == 1;
    if (i > 2) {
      jpeg.exif = {'I',  'I', 42, 0, 8, 0, 0, 0,  // header
                   1,    0,                       // entries
                   0x12, 1,   3,  0, 1, 0, 0, 0, 6, 0, 0, 0};
    }
    seeds.push_back(AsSeed(WriteJpeg(jpeg, i)));
    PngKind png;
    png.width = 10 + i * 20;
    png.interlaced = i % 2 == 1;
    seeds.push_back(
        AsSeed(WritePng(png, TestPixels(png.width, png.height, 3, i))));
    WebpKind webp;
    webp.height = 20 + i * 20;
    webp.lossless = i % 2 == 1;
    seeds.push_back(
        AsSeed(WriteWebp(webp, TestPixels(webp.width, webp.height, 3, i))));
  }
  return seeds;
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds};
  return target;
}

}  // namespace millrace
