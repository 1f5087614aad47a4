// Images that need more than a thread's scratch: which of them the stage
// refuses, and as what, at every size of the memory for large images.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "server/decode/limits.h"
#include "server/pipeline/stage/image_memory.h"
#include "server/pipeline/stage/image_stage.h"
#include "tests/testing/allocation_meter.h"
#include "tests/testing/images/claimed_size.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"
#include "tests/testing/images/webp_writer.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Bytes = std::vector<uint8_t>;

constexpr int64_t kMiB = 1 << 20;
// Of a server with no memory for large images, and of one with the most.
constexpr int64_t kCapacities[] = {0, 20 * kMiB, 100 * kMiB, 240 * kMiB,
                                   496 * kMiB};

std::unique_ptr<ImageStage> Build(const std::vector<std::string>& texts) {
  Field field;
  field.set_name("image");
  field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  std::vector<Transform> transforms(texts.size());
  std::vector<PlacedTransform> placed;
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(texts[i], &transforms[i]))
        << texts[i];
    placed.push_back({&transforms[i], static_cast<uint32_t>(i)});
  }
  auto stage = ImageStage::Create(field, placed);
  EXPECT_TRUE(stage.ok()) << stage.status();
  return stage.ok() ? *std::move(stage) : nullptr;
}

// As on a thread of an engine with `capacity` bytes for large images.
absl::Status RunOnce(const ImageStage& stage, const Bytes& image,
                     int64_t capacity) {
  decode::LargeImageGate gate(capacity);
  LargeImages large;
  large.gate = &gate;
  const auto scratch = stage.NewScratch();
  scratch->large = &large;
  size_t size = 1;
  for (const int64_t n : stage.output_shape()) size *= n;
  Bytes out(size);
  return stage.Run(image, 1, *scratch, absl::MakeSpan(out));
}

struct Claim {
  const char* format;
  Bytes bytes;
};

// Images of which a pipeline reads few pixels, and whose formats need about
// `bytes` of memory.
std::vector<Claim> ImagesOfWholeBytes(double bytes) {
  const auto side = [&](double each) {
    return static_cast<int>(std::sqrt(bytes / each));
  };
  const Bytes pixels = TestPixels(64, 48, 3, 1);
  JpegKind jpeg;
  jpeg.progressive = true;
  jpeg.h_sampling = jpeg.v_sampling = 1;
  PngKind png = {.width = 64, .height = 48};
  png.interlaced = true;
  const WebpKind webp = {.width = 64, .height = 48, .lossless = true};
  return {
      {"progressive JPEG", JpegClaiming(WriteJpeg(jpeg, 1), side(6), side(6))},
      {"interlaced PNG", PngClaiming(WritePng(png, pixels), side(3), side(3))},
      {"lossless WebP",
       WebpClaiming(WriteWebp(webp, pixels), side(4), side(4))},
  };
}

// A server with little memory named a budget for them, at which they were
// damaged: the format's memory was compared with three times the limit.
TEST(LargeImageStage, WhatADecoderRefusesIsABadSampleAtEveryBudget) {
  const auto stage = Build({"center_crop { height: 64 width: 64 }"});
  ASSERT_NE(stage, nullptr);
  for (const double part : {1.02, 1.5, 1.9}) {
    for (const Claim& claim :
         ImagesOfWholeBytes(part * decode::kMaxDecodedBytes)) {
      for (const int64_t capacity : kCapacities) {
        SCOPED_TRACE(absl::StrCat(claim.format, ", ", part, ", ", capacity));
        const absl::Status status = RunOnce(*stage, claim.bytes, capacity);
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr("the maximum is 256 MiB for one image"));
      }
    }
  }
}

// The other side: where the decoder takes it, a server with too little memory
// says so, and one with the memory looks at its pixels.
TEST(LargeImageStage, WhatADecoderTakesNeedsALargerBudget) {
  const auto stage = Build({"center_crop { height: 64 width: 64 }"});
  ASSERT_NE(stage, nullptr);
  for (const double part : {0.6, 0.97}) {
    for (const Claim& claim :
         ImagesOfWholeBytes(part * decode::kMaxDecodedBytes)) {
      for (const int64_t capacity : kCapacities) {
        SCOPED_TRACE(absl::StrCat(claim.format, ", ", part, ", ", capacity));
        const absl::Status status = RunOnce(*stage, claim.bytes, capacity);
        if (capacity < 240 * kMiB) {
          EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition)
              << status;
          continue;
        }
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
        EXPECT_THAT(std::string(status.message()), Not(HasSubstr("maximum")));
      }
    }
  }
}

// The image between the transforms is larger than any may be: no budget helps.
TEST(LargeImageStage, WhatBecomesTooLargeIsABadSampleAtEveryBudget) {
  const auto stage = Build({"resize { height: 12000 width: 12000 }",
                            "gaussian_blur { kernel_size: 3 sigma_min: 1 "
                            "sigma_max: 1 }",
                            "center_crop { height: 64 width: 64 }"});
  ASSERT_NE(stage, nullptr);
  const Bytes image = WriteJpeg({}, 1);
  for (const int64_t capacity : kCapacities) {
    const absl::Status status = RunOnce(*stage, image, capacity);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("becomes 12000 x 12000 during its transforms"));
  }
}

// Bytes that the stage asks the gate for, beside the scratch of a thread: the
// gate has no room for any.
int64_t Asked(const ImageStage& stage, const Bytes& image) {
  decode::LargeImageGate gate(kMaxImageBytes);
  decode::LargeImageGate::Admission all;
  EXPECT_TRUE(gate.TryEnter(kMaxImageBytes, &all));
  LargeImages large;
  large.gate = &gate;
  const auto scratch = stage.NewScratch();
  scratch->large = &large;
  Bytes out(64 * 64 * 3);
  const absl::Status status =
      stage.Run(image, 1, *scratch, absl::MakeSpan(out));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  return large.wanted;
}

// The orientation as a camera writes it.
Bytes ExifOf(uint8_t orientation) {
  return {'I', 'I', 42, 0, 8, 0,           0, 0, 1, 0, 0x12, 1, 3,
          0,   1,   0,  0, 0, orientation, 0, 0, 0, 0, 0,    0, 0};
}

// The upright copy of a photograph of 46 megapixels was not charged: what an
// image may take in all was the limit of its decoder.
TEST(LargeImageStage, AnImageTakesNoMoreThanItIsChargedWith) {
  constexpr int64_t kThread = 16 * kMiB;  // the scratch of a thread
  PngKind kind;
  kind.width = 8200;
  kind.height = 5800;
  kind.color_type = 0;
  const Bytes grey(static_cast<size_t>(kind.width) * kind.height, 77);
  const int64_t decoded = int64_t{3} * kind.width * kind.height;
  // Turned upright, or with an operation on a copy of the whole image.
  for (const bool turned : {true, false}) {
    SCOPED_TRACE(turned);
    kind.exif = ExifOf(turned ? 6 : 1);
    const Bytes png = WritePng(kind, grey);
    std::vector<std::string> transforms = {
        "decode_image { exif_transpose: true }"};
    if (!turned) transforms.push_back("grayscale {}");
    transforms.push_back("resize { height: 64 width: 64 }");
    const auto stage = Build(transforms);
    ASSERT_NE(stage, nullptr);
    const int64_t asked = Asked(*stage, png);
    Bytes out(64 * 64 * 3);
    const auto scratch = stage->NewScratch();
    const AllocationMeter meter;
    const absl::Status status =
        stage->Run(png, 1, *scratch, absl::MakeSpan(out));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_GT(meter.peak(), 2 * decoded);
    EXPECT_LE(meter.peak(), asked + kThread);
    EXPECT_LE(asked, 2 * decoded + 8 * kMiB) << "much too much";
  }
}

}  // namespace
}  // namespace millrace::pipeline
