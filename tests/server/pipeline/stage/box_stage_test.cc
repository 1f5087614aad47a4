#include "server/pipeline/stage/box_stage.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "server/augment/random.h"

namespace millrace::pipeline {
namespace {

using Bytes = std::vector<uint8_t>;
using Boxes = std::vector<std::vector<float>>;

std::vector<Transform> Parse(const std::vector<std::string>& texts) {
  std::vector<Transform> transforms;
  for (const std::string& text : texts) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        text, &transforms.emplace_back()))
        << text;
  }
  return transforms;
}

std::vector<PlacedTransform> Placed(const std::vector<Transform>& transforms) {
  std::vector<PlacedTransform> placed;
  for (const Transform& t : transforms) {
    placed.push_back({&t, static_cast<uint32_t>(placed.size())});
  }
  return placed;
}

Field BoxField(int64_t boxes) {
  Field field;
  field.set_name("boxes");
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(DTYPE_FLOAT32);
  field.add_shape(boxes);
  field.add_shape(4);
  return field;
}

Field ImageField(augment::Size size, int channels) {
  Field field;
  field.set_name("image");
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(DTYPE_UINT8);
  for (int64_t n : {size.height, size.width, int64_t{channels}}) {
    field.add_shape(n);
  }
  return field;
}

Bytes Pack(const Boxes& boxes) {
  Bytes bytes(boxes.size() * 16);
  for (size_t i = 0; i < boxes.size(); ++i) {
    std::memcpy(&bytes[i * 16], boxes[i].data(), 16);
  }
  return bytes;
}

absl::StatusOr<Boxes> MoveBoxes(const std::vector<std::string>& texts,
                                const Boxes& boxes, augment::Size image,
                                uint64_t key,
                                augment::ParameterLog* log = nullptr) {
  const std::vector<Transform> transforms = Parse(texts);
  ImageStageOptions options;
  options.role = FieldRole::BOXES_XYXY;
  auto stage =
      ImageStage::Create(BoxField(boxes.size()), Placed(transforms), options);
  if (!stage.ok()) return stage.status();
  EXPECT_EQ((*stage)->output_shape(),
            (std::vector<int64_t>{static_cast<int64_t>(boxes.size()), 4}));
  auto scratch = (*stage)->NewScratch();
  scratch->image_size = image;
  scratch->log = log;
  const Bytes stored = Pack(boxes);
  Bytes out(stored.size());
  const absl::Status status =
      (*stage)->Run(stored, key, *scratch, absl::MakeSpan(out));
  if (!status.ok()) return status;
  Boxes moved;
  for (size_t at = 0; at < out.size(); at += 16) {
    moved.emplace_back(4);
    std::memcpy(moved.back().data(), &out[at], 16);
  }
  return moved;
}

// From torchvision 0.26: v2 transforms of BoundingBoxes on a canvas of 60 x 40.
TEST(BoxStage, AgreesWithTorchvision) {
  const Boxes boxes = {
      {10, 5, 30, 25}, {0, 0, 60, 40}, {50.5f, 30.25f, 58, 39}, {-3, 2, 70, 8}};
  struct Case {
    std::string transform;
    Boxes want;
  };
  const std::vector<Case> cases = {
      {"center_crop { height: 20 width: 40 }",
       {{0, 0, 20, 15}, {0, 0, 40, 20}, {40, 20, 40, 20}, {0, 0, 40, 0}}},
      {"center_crop { height: 50 width: 40 }",
       {{0, 10, 20, 30}, {0, 5, 40, 45}, {40, 35.25f, 40, 44}, {0, 7, 40, 13}}},
      {"resize { height: 20 width: 45 }",
       {{7.5f, 2.5f, 22.5f, 12.5f},
        {0, 0, 45, 20},
        {37.875f, 15.125f, 43.5f, 19.5f},
        {-2.25f, 1, 52.5f, 4}}},
      {"resize { short_side: 25 }",
       {{6.16667f, 3.125f, 18.5f, 15.625f},
        {0, 0, 37, 25},
        {31.1417f, 18.9062f, 35.7667f, 24.375f},
        {-1.85f, 1.25f, 43.1667f, 5}}},
      {"pad { padding: [1, 2, 3, 4] }",
       {{11, 7, 31, 27},
        {1, 2, 61, 42},
        {51.5f, 32.25f, 59, 41},
        {0, 4, 64, 10}}},
      {"horizontal_flip { p: 1 }",
       {{30, 5, 50, 25},
        {0, 0, 60, 40},
        {2, 30.25f, 9.5f, 39},
        {-10, 2, 63, 8}}},
      {"vertical_flip { p: 1 }",
       {{10, 15, 30, 35},
        {0, 0, 60, 40},
        {50.5f, 1, 58, 9.75f},
        {-3, 32, 70, 38}}},
      {"random_rotation { degrees_min: 30 degrees_max: 30 }",
       {{5.17949f, 7.00962f, 32.5f, 34.3301f},
        {0, 0, 60, 40},
        {52.8785f, 14.8768f, 60, 26.2045f},
        {0, 0, 58.641f, 26.1077f}}},
      {"random_affine { degrees_min: -20 degrees_max: -20 scale_min: 0.5 "
       "scale_max: 0.5 shear_x_min: 10 shear_x_max: 10 shear_y_min: -5 "
       "shear_y_max: -5 }",
       {{19.021f, 12.6087f, 30.4276f, 25.0618f},
        {13.7453f, 6.24785f, 46.2547f, 33.7522f},
        {40.8152f, 21.4134f, 45.1996f, 26.6993f},
        {12.4619f, 5.93431f, 48.366f, 18.3738f}}},
      {"random_crop { height: 40 width: 60 }", boxes},
      {"center_crop { height: 40 width: 60 }",
       {{10, 5, 30, 25},
        {0, 0, 60, 40},
        {50.5f, 30.25f, 58, 39},
        {0, 2, 60, 8}}},
      {"horizontal_flip { p: 0 }", boxes},
  };
  for (const Case& c : cases) {
    const auto got = MoveBoxes({c.transform}, boxes, {60, 40}, 1);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < boxes.size(); ++i) {
      for (int k = 0; k < 4; ++k) {
        EXPECT_NEAR((*got)[i][k], c.want[i][k], 2e-4)
            << c.transform << ", box " << i;
      }
    }
  }
}

TEST(BoxStage, RowsOfZerosArePaddingAndStay) {
  const auto got =
      MoveBoxes({"pad { padding: 8 }", "horizontal_flip { p: 1 }"},
                {{1, 2, 3, 4}, {0, 0, 0, 0}, {0, 0, 0, 1}}, {20, 20}, 1);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[1], (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ((*got)[2], (std::vector<float>{28, 8, 28, 9}));
}

TEST(BoxStage, ASideThatIsNoNumberIsABadSample) {
  const float kNan = std::numeric_limits<float>::quiet_NaN();
  const float kInfinity = std::numeric_limits<float>::infinity();
  for (const float side : {kNan, kInfinity, -kInfinity}) {
    for (int i = 0; i < 4; ++i) {
      Boxes boxes = {{0, 0, 0, 0}, {1, 2, 3, 4}};
      boxes[1][i] = side;
      for (const char* transform :
           {"horizontal_flip { p: 0 }", "center_crop { height: 4 width: 4 }"}) {
        const absl::Status status =
            MoveBoxes({transform}, boxes, {20, 20}, 1).status();
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
        EXPECT_NE(status.message().find("box 1 is ["), std::string::npos)
            << status;
      }
    }
  }
}

class Log : public augment::ParameterLog {
 public:
  void Add(uint32_t place, std::string what) override { lines[place] = what; }
  std::map<uint32_t, std::string> lines;
};

// A white rectangle is drawn into a black image; the boxes must follow it
// through every chain of random transforms.
TEST(BoxStage, BoxesFollowTheImage) {
  const std::vector<std::vector<std::string>> chains = {
      {"random_resized_crop { height: 61 width: 47 interpolation: "
       "INTERPOLATION_NEAREST }"},
      {"random_crop { height: 50 width: 64 padding: [7, 3] }",
       "horizontal_flip {}", "vertical_flip {}"},
      {"random_rotation { degrees_min: -45 degrees_max: 45 }",
       "random_resized_crop { height: 80 width: 80 scale_min: 0.5 scale_max: 1 "
       "interpolation: INTERPOLATION_NEAREST }"},
      {"horizontal_flip {}",
       "random_affine { degrees_min: -180 degrees_max: 180 translate_x: 0.2 "
       "translate_y: 0.1 scale_min: 0.6 scale_max: 1.4 shear_x_min: -20 "
       "shear_x_max: 20 }",
       "vertical_flip {}", "center_crop { height: 40 width: 90 }"},
      {"resize { short_side: 44 interpolation: INTERPOLATION_NEAREST }",
       "random_crop { height: 44 width: 44 }", "horizontal_flip {}"},
  };
  const augment::Size size = {72, 56};
  int compared = 0;
  for (uint64_t key = 0; key < 400; ++key) {
    const std::vector<std::string>& chain = chains[key % chains.size()];
    augment::CounterRandom random(key, 77);
    const int left = random.Below(40), top = random.Below(30);
    const int right = left + 8 + random.Below(20);
    const int bottom = top + 8 + random.Below(16);
    Bytes image(size.width * size.height);
    for (int y = top; y < bottom; ++y) {
      std::memset(&image[y * size.width + left], 255, right - left);
    }
    const std::vector<Transform> transforms = Parse(chain);
    auto stage = ImageStage::Create(ImageField(size, 1), Placed(transforms));
    ASSERT_TRUE(stage.ok()) << stage.status();
    auto scratch = (*stage)->NewScratch();
    Log of_image;
    scratch->log = &of_image;
    const int64_t height = (*stage)->output_shape()[0];
    const int64_t width = (*stage)->output_shape()[1];
    Bytes out(height * width);
    ASSERT_TRUE((*stage)->Run(image, key, *scratch, absl::MakeSpan(out)).ok());
    EXPECT_EQ(scratch->image_size, size);
    Log of_boxes;
    const auto moved =
        MoveBoxes(chain,
                  {{static_cast<float>(left), static_cast<float>(top),
                    static_cast<float>(right), static_cast<float>(bottom)}},
                  scratch->image_size, key, &of_boxes);
    ASSERT_TRUE(moved.ok()) << moved.status();
    EXPECT_EQ(of_boxes.lines, of_image.lines);
    EXPECT_FALSE(of_boxes.lines.empty());
    const std::vector<float>& box = (*moved)[0];
    EXPECT_GE(box[0], 0);
    EXPECT_GE(box[1], 0);
    EXPECT_LE(box[2], width);
    EXPECT_LE(box[3], height);
    int64_t seen[4] = {width, height, 0, 0};
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        if (out[y * width + x] == 0) continue;
        seen[0] = std::min(seen[0], x);
        seen[1] = std::min(seen[1], y);
        seen[2] = std::max(seen[2], x + 1);
        seen[3] = std::max(seen[3], y + 1);
      }
    }
    if (seen[2] == 0) {
      EXPECT_LE(std::min(box[2] - box[0], box[3] - box[1]), 2.0f);
      continue;
    }
    ++compared;
    // A box around turned corners is larger than what it holds only where a
    // corner has left the canvas.
    EXPECT_LE(box[0], seen[0] + 1.6f) << key;
    EXPECT_LE(box[1], seen[1] + 1.6f) << key;
    EXPECT_GE(box[2], seen[2] - 1.6f) << key;
    EXPECT_GE(box[3], seen[3] - 1.6f) << key;
    if (key % chains.size() < 2 || key % chains.size() == 4) {
      EXPECT_GE(box[0], seen[0] - 1.6f) << key;
      EXPECT_GE(box[1], seen[1] - 1.6f) << key;
      EXPECT_LE(box[2], seen[2] + 1.6f) << key;
      EXPECT_LE(box[3], seen[3] + 1.6f) << key;
    }
  }
  EXPECT_GT(compared, 300);
}

TEST(BoxStage, AnImageBelowTheWindowIsABadSampleAsItselfIs) {
  EXPECT_EQ(MoveBoxes({"random_crop { height: 9 width: 9 }"}, {{1, 2, 3, 4}},
                      {8, 8}, 1)
                .status()
                .code(),
            absl::StatusCode::kDataLoss);
}

TEST(MaskStage, OfAnotherSizeThanItsImageIsABadSample) {
  ImageStageOptions options;
  options.role = FieldRole::MASK;
  auto stage = ImageStage::Create(ImageField({6, 4}, 1), {}, options);
  ASSERT_TRUE(stage.ok()) << stage.status();
  auto scratch = (*stage)->NewScratch();
  Bytes mask(24, 7), out(24);
  scratch->image_size = {6, 5};
  const absl::Status status =
      (*stage)->Run(mask, 1, *scratch, absl::MakeSpan(out));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("4 x 6"), std::string::npos) << status;
  EXPECT_NE(status.message().find("5 x 6"), std::string::npos) << status;
  scratch->image_size = {6, 4};
  EXPECT_TRUE((*stage)->Run(mask, 1, *scratch, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, mask);
}

}  // namespace
}  // namespace millrace::pipeline
