// Images, masks and boxes of one dataset through the engine: what belongs
// together moves together, whatever the outputs' order and the number of
// threads.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/augment/random.h"
#include "server/pipeline/stage/image_stage.h"
#include "tests/server/pipeline/engine_fixture.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"

namespace millrace::pipeline {
namespace {

constexpr int kSamples = 24;
constexpr int kBoxes = 3;

std::string Text(const std::vector<uint8_t>& bytes) {
  return std::string(bytes.begin(), bytes.end());
}

// Sample i is a (30 + i) x (40 + 2 i) picture whose mask shows a rectangle of
// class 9, which is its first box. `wrong_mask` has another size than its
// image.
std::vector<std::string> Sample(int i, bool wrong_mask) {
  PngKind kind;
  kind.width = 40 + 2 * i;
  kind.height = 30 + i;
  const std::string image =
      Text(WritePng(kind, TestPixels(kind.width, kind.height, 3, /*seed=*/i)));
  augment::CounterRandom random(i, 5);
  const int left = random.Below(15), top = random.Below(10);
  const int right = left + 10 + random.Below(10);
  const int bottom = top + 8 + random.Below(8);
  kind.color_type = 0;
  if (wrong_mask) ++kind.width;
  std::vector<uint8_t> mask(kind.width * kind.height);
  for (int y = top; y < bottom; ++y) {
    std::memset(&mask[y * kind.width + left], 9, right - left);
  }
  const float boxes[kBoxes * 4] = {static_cast<float>(left),
                                   static_cast<float>(top),
                                   static_cast<float>(right),
                                   static_cast<float>(bottom),
                                   1,
                                   2,
                                   3,
                                   4};  // the third is padding
  return {image, Text(WritePng(kind, mask)),
          std::string(reinterpret_cast<const char*>(boxes), sizeof(boxes))};
}

std::shared_ptr<const storage::RecordSource> Scenes(int wrong_mask = -1) {
  DatasetInfo info;
  for (const char* name : {"image", "mask"}) {
    Field& field = *info.mutable_schema()->add_fields();
    field.set_name(name);
    field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  }
  Field& boxes = *info.mutable_schema()->add_fields();
  boxes.set_name("boxes");
  boxes.set_kind(FIELD_KIND_TENSOR);
  boxes.set_dtype(DTYPE_FLOAT32);
  boxes.add_shape(kBoxes);
  boxes.add_shape(4);
  std::vector<std::vector<std::string>> samples;
  for (int i = 0; i < kSamples; ++i) {
    samples.push_back(Sample(i, i == wrong_mask));
  }
  return storage::NewMemorySource(info, std::move(samples));
}

constexpr char kTransforms[] = R"pb(
  field_roles { field: "mask" role: MASK fill: 255 }
  field_roles { field: "boxes" role: BOXES_XYXY }
  transforms { decode_image { field: "image" } }
  transforms { decode_image { field: "mask" color: INDEX } }
  transforms {
    random_affine {
      fields: [ "image", "mask", "boxes" ]
      degrees_min: -10
      degrees_max: 10
      translate_x: 0.1
      fill: [ 1, 2, 3 ]
    }
  }
  transforms {
    random_resized_crop {
      fields: [ "image", "mask", "boxes" ]
      height: 48
      width: 40
      scale_min: 0.4
      scale_max: 1
    }
  }
  transforms { horizontal_flip { fields: [ "image", "mask", "boxes" ] } }
  transforms { color_jitter { brightness_min: 0.8 brightness_max: 1.2 } }
)pb";

// The bytes of each tensor over an epoch.
using Epoch = std::map<std::string, std::string>;

absl::StatusOr<Epoch> RunEpoch(
    std::shared_ptr<const storage::RecordSource> source,
    const std::string& more, uint32_t threads) {
  ByteBudget budget(256 << 20);
  Engine::Options options;
  options.threads = threads;
  options.budget = &budget;
  auto engine = CreateEngine(options, {{"scenes", std::move(source)}},
                             ImageStage::Create);
  if (!engine.ok()) return engine.status();
  auto pipeline = (*engine)->Open(
      Spec(std::string("sources { dataset: 'scenes' } batch_size: 6 ") +
           kTransforms + more));
  if (!pipeline.ok()) return pipeline.status();
  StepRange range;
  range.step_count = kSamples / 6;
  Arrivals arrivals;
  auto run = (*engine)->Start(*pipeline, range, arrivals.callbacks());
  if (!run.ok()) return run.status();
  if (absl::Status status = arrivals.AwaitDone(); !status.ok()) return status;
  Epoch epoch;
  for (const auto& [step, batch] : arrivals.TakeBatches()) {
    for (const TensorHeader& tensor : batch.header.tensors()) {
      epoch[tensor.name()].append(
          reinterpret_cast<const char*>(batch.payload->data()) +
              tensor.offset(),
          tensor.bytes());
    }
  }
  return epoch;
}

constexpr char kAll[] =
    "outputs { field: 'image' } outputs { field: 'mask' } "
    "outputs { field: 'boxes' } ";

TEST(GeometryEngine, MasksAndBoxesFollowTheirImage) {
  const auto epoch = RunEpoch(Scenes(), kAll, 2);
  ASSERT_TRUE(epoch.ok()) << epoch.status();
  const std::string& mask = epoch->at("mask");
  ASSERT_EQ(mask.size(), kSamples * 48u * 40u);
  ASSERT_EQ(epoch->at("image").size(), 3 * mask.size());
  ASSERT_EQ(epoch->at("boxes").size(), kSamples * kBoxes * 16u);
  int seen = 0;
  for (int row = 0; row < kSamples; ++row) {
    float boxes[kBoxes][4];
    std::memcpy(boxes, &epoch->at("boxes")[row * sizeof(boxes)], sizeof(boxes));
    for (float side : boxes[2]) EXPECT_EQ(side, 0);
    for (int y = 0; y < 48; ++y) {
      for (int x = 0; x < 40; ++x) {
        const uint8_t value = mask[(row * 48 + y) * 40 + x];
        ASSERT_TRUE(value == 0 || value == 9 || value == 255) << int{value};
        if (value != 9) continue;
        ++seen;
        ASSERT_GE(x + 1.6f, boxes[0][0]) << row;
        ASSERT_GE(y + 1.6f, boxes[0][1]) << row;
        ASSERT_LE(x - 0.6f, boxes[0][2]) << row;
        ASSERT_LE(y - 0.6f, boxes[0][3]) << row;
      }
    }
  }
  EXPECT_GT(seen, 2000);
}

TEST(GeometryEngine, OutputsMayStandInAnyOrderAndLeaveTheImageOut) {
  const auto all = RunEpoch(Scenes(), kAll, 1);
  ASSERT_TRUE(all.ok()) << all.status();
  for (const char* outputs :
       {"outputs { field: 'boxes' } outputs { field: 'mask' } "
        "outputs { field: 'image' }",
        "outputs { field: 'boxes' } outputs { field: 'mask' }",
        "outputs { field: 'mask' }", "outputs { field: 'boxes' }"}) {
    for (uint32_t threads : {1, 3}) {
      const auto some = RunEpoch(Scenes(), outputs, threads);
      ASSERT_TRUE(some.ok()) << some.status();
      for (const auto& [name, bytes] : *some) {
        EXPECT_EQ(bytes, all->at(name)) << name << " of " << outputs;
      }
    }
  }
}

TEST(GeometryEngine, AMaskOfAnotherSizeIsABadSample) {
  for (const std::string& outputs :
       {std::string(kAll), std::string("outputs { field: 'mask' }")}) {
    const auto epoch = RunEpoch(Scenes(/*wrong_mask=*/7), outputs, 2);
    EXPECT_EQ(epoch.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_NE(epoch.status().message().find("the mask is 37 x 55"),
              std::string::npos)
        << epoch.status();
    EXPECT_NE(epoch.status().message().find("its image 37 x 54"),
              std::string::npos)
        << epoch.status();
    EXPECT_TRUE(
        RunEpoch(Scenes(7), outputs + "bad_samples { action: SUBSTITUTE }", 2)
            .ok());
  }
}

// Two samples of raw pixels.
std::shared_ptr<const storage::RecordSource> Raw(int64_t height, int64_t width,
                                                 int64_t channels = 1) {
  DatasetInfo info;
  Field& image = *info.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_TENSOR);
  image.set_dtype(DTYPE_UINT8);
  for (const int64_t side : {height, width, channels}) image.add_shape(side);
  const std::string pixels(static_cast<size_t>(height * width * channels), 7);
  return storage::NewMemorySource(info, {{pixels}, {pixels}});
}

// The plan's size of the images is the one that the stage makes: it left the
// size unknown where an image is no square.
TEST(GeometryEngine, RawImagesOfAnyShapeMayKeepTheirRatio) {
  constexpr struct {
    int64_t height, width, channels;
    int side;
    int64_t to_height, to_width;
  } kCases[] = {
      {1, 1, 1, 5, 5, 5},          {1, 7, 3, 4, 4, 28},
      {7, 1, 3, 1, 7, 1},          {500, 375, 3, 256, 341, 256},
      {31, 18, 1, 9, 15, 9},       {18, 31, 1, 31, 31, 53},
      {1, 65535, 1, 2, 2, 131070}, {40'000, 3, 1, 1, 13'333, 1},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(std::to_string(c.height) + " x " + std::to_string(c.width));
    ByteBudget budget(256 << 20);
    Engine::Options options;
    options.threads = 1;
    options.budget = &budget;
    const auto engine =
        CreateEngine(options, {{"raw", Raw(c.height, c.width, c.channels)}},
                     ImageStage::Create);
    ASSERT_TRUE(engine.ok()) << engine.status();
    const auto pipeline =
        (*engine)->Open(Spec("sources { dataset: 'raw' } batch_size: 2 "
                             "transforms { resize { short_side: " +
                             std::to_string(c.side) + " } }"));
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    Arrivals arrivals;
    const auto run =
        (*engine)->Start(*pipeline, {.step_count = 1}, arrivals.callbacks());
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(arrivals.AwaitDone().ok());
    auto batches = arrivals.TakeBatches();
    const batch::FilledBatch& batch = batches.at(0);
    EXPECT_EQ(
        TensorValues<uint8_t>(batch, "image"),
        std::vector<uint8_t>(2 * c.to_height * c.to_width * c.channels, 7));
    const auto& shape = batch.header.tensors(0).sample_shape();
    EXPECT_EQ(std::vector<int64_t>(shape.begin(), shape.end()),
              (std::vector<int64_t>{c.to_height, c.to_width, c.channels}));
  }
}

TEST(GeometryEngine, SourcesOfOneSizeAfterAResizeOfTheShortSideMayBeMixed) {
  ByteBudget budget(256 << 20);
  Engine::Options options;
  options.threads = 1;
  options.budget = &budget;
  const auto engine = CreateEngine(
      options, {{"a", Raw(30, 60)}, {"b", Raw(15, 30)}, {"c", Raw(60, 30)}},
      ImageStage::Create);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto open = [&](const std::string& other) {
    return (*engine)
        ->Open(Spec("sources { dataset: 'a' weight: 3 } sources { dataset: '" +
                    other +
                    "' weight: 1 } batch_size: 2 epoch_samples: 8 "
                    "transforms { resize { short_side: 10 } }"))
        .status();
  };
  EXPECT_TRUE(open("b").ok()) << open("b");
  EXPECT_EQ(open("c").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(open("c").message().find("uint8 [20, 10, 1]"), std::string::npos)
      << open("c");
}

}  // namespace
}  // namespace millrace::pipeline
