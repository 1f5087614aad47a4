// Fuzz target of what happens to a stored image of any format in a pipeline:
// sizes and orientations that its header claims, and what transforms make of
// them. The same bytes with the same key give the same pixels.

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/logging.h"
#include "proto/names.h"
#include "proto/spec_text.h"
#include "server/pipeline/stage/image_stage.h"
#include "server/plan/field_trace.h"
#include "server/plan/resolve.h"
#include "tests/fuzz/fuzz_decode.h"
#include "tests/fuzz/fuzz_specs.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"
#include "tests/testing/images/webp_writer.h"

namespace millrace {
namespace {

// Over a dataset with an image and a mask.
constexpr const char* kPipelines[] = {
    "transforms { decode_image { exif_transpose: true } } "
    "transforms { random_resized_crop { height: 24 width: 32 } } "
    "transforms { horizontal_flip {} }",

    "transforms { decode_image { color: GRAY mode: EXACT } } "
    "transforms { resize { short_side: 20 } } "
    "transforms { center_crop { height: 24 width: 32 } }",

    "transforms { decode_image { exif_transpose: true } } "
    "transforms { random_crop { height: 24 width: 32 padding: 4 "
    "  pad_if_needed: true padding_mode: PADDING_REFLECT } } "
    "transforms { random_rotation { degrees_min: -30 degrees_max: 30 } } "
    "transforms { trivial_augment_wide {} }",

    "transforms { decode_image {} } "
    "transforms { random_resized_crop { height: 24 width: 32 } } "
    "transforms { rand_augment {} } "
    "transforms { color_jitter { brightness_min: 0.5 brightness_max: 1.5 "
    "  hue_min: -0.2 hue_max: 0.2 } } "
    "transforms { gaussian_blur { kernel_size: 5 } } "
    "transforms { random_erasing { p: 1 } }",

    "transforms { decode_image {} } "
    "transforms { decode_image { field: 'mask' color: INDEX } } "
    "transforms { resize { fields: ['image', 'mask'] height: 40 width: 40 } } "
    "transforms { random_affine { fields: ['image', 'mask'] degrees_min: -20 "
    "  degrees_max: 20 scale_min: 0.5 scale_max: 1.5 } } "
    "field_roles { field: 'mask' role: MASK }",
};

class Pipeline {
 public:
  explicit Pipeline(const std::string& transforms) {
    auto spec = ParseSpecText("sources { dataset: 'segments' } batch_size: 8 " +
                                  transforms + " outputs { field: 'image' }",
                              "fuzz");
    MR_CHECK(spec.ok()) << spec.status();
    auto resolved = plan::ResolveSpec(*spec, FuzzDatasets());
    MR_CHECK(resolved.ok()) << resolved.status() << " of " << transforms;
    spec_ = *std::move(resolved);
    for (const Field& field :
         FuzzDatasets().at("segments")->schema().fields()) {
      if (field.kind() != FIELD_KIND_ENCODED_IMAGE) continue;
      auto trace = plan::TraceField(spec_, field);
      MR_CHECK(trace.ok()) << trace.status();
      if (trace->image_places.empty()) continue;
      std::vector<pipeline::PlacedTransform> placed;
      for (uint32_t place : trace->image_places) {
        placed.push_back({&spec_.transforms(static_cast<int>(place)), place});
      }
      pipeline::ImageStageOptions options;
      options.role = trace->role;
      auto stage = pipeline::ImageStage::Create(field, placed, options);
      MR_CHECK(stage.ok()) << stage.status();
      stages_.push_back(*std::move(stage));
    }
    scratch_ = pipeline::NewImageScratch();
  }

  // Whether every field of the pipeline took the bytes.
  bool Run(const std::vector<uint8_t>& bytes, uint64_t key) {
    bool good = true;
    for (const auto& stage : stages_) {
      const auto stored = stage->ReadSize(bytes, *scratch_);
      CheckDecodeStatus(stored.status());
      if (stored.ok() && stored->height * stored->width > kMaxFuzzedPixels) {
        continue;
      }
      size_t size = 1;
      for (int64_t side : stage->output_shape()) size *= side;
      std::vector<uint8_t> out[2];
      absl::Status status[2];
      // The second time with what the first has left in the scratch.
      for (int i = 0; i < 2; ++i) {
        out[i].resize(size);
        status[i] = stage->Run(bytes, key, *scratch_, absl::MakeSpan(out[i]));
        CheckDecodeStatus(status[i]);
      }
      MR_CHECK(status[0] == status[1]) << status[0] << " and " << status[1];
      MR_CHECK(!status[0].ok() || out[0] == out[1])
          << "other pixels the second time";
      good = good && status[0].ok();
    }
    return good;
  }

 private:
  PipelineSpec spec_;
  std::vector<std::unique_ptr<pipeline::ImageStage>> stages_;
  std::unique_ptr<pipeline::ImageStage::Scratch> scratch_;
};

bool Run(const uint8_t* data, size_t size) {
  static std::vector<Pipeline>& pipelines =
      *new std::vector<Pipeline>(std::begin(kPipelines), std::end(kPipelines));
  // Its own allocation, so that a read past the end is seen.
  const std::vector<uint8_t> bytes(data, data + size);
  bool good = false;
  // A mask is taken from few images.
  for (size_t i = 0; i < pipelines.size(); ++i) {
    good |= pipelines[i].Run(bytes, size * 2654435761u + i);
  }
  return good;
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
    png.color_type = 0;
    seeds.push_back(
        AsSeed(WritePng(png, TestPixels(png.width, png.height, 1, i))));
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
