// The benchmarks run what they say: every pipeline and transform of
// bench_specs.h is run, the runner counts, the floor reads what a decoder
// reads.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/spec_text.h"
#include "tests/bench/bench_specs.h"
#include "tests/bench/entropy_floor.h"
#include "tests/bench/spec_runner.h"
#include "tests/server/storage/memory/memory_source.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace {
namespace {

std::string Text(const std::vector<uint8_t>& bytes) {
  return std::string(bytes.begin(), bytes.end());
}

DatasetInfo Info(Field image) {
  DatasetInfo info;
  image.set_name("image");
  *info.mutable_schema()->add_fields() = image;
  Field& label = *info.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(10);
  return info;
}

std::shared_ptr<const storage::RecordSource> Photographs() {
  Field image;
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  std::vector<std::vector<std::string>> samples;
  for (uint64_t i = 0; i < 8; ++i) {
    samples.push_back({Text(WriteJpeg({.width = 300, .height = 260}, i)),
                       std::string(8, '\0')});
  }
  return storage::NewMemorySource(Info(image), samples);
}

std::shared_ptr<const storage::RecordSource> RawPixels() {
  Field image;
  image.set_kind(FIELD_KIND_TENSOR);
  image.set_dtype(DTYPE_UINT8);
  for (int64_t side : {256, 256, 3}) image.add_shape(side);
  std::vector<std::vector<std::string>> samples;
  for (uint64_t i = 0; i < 8; ++i) {
    samples.push_back({Text(TestPixels(256, 256, 3, i)), std::string(8, '\0')});
  }
  return storage::NewMemorySource(Info(image), samples);
}

absl::Status RunShortly(std::shared_ptr<const storage::RecordSource> source,
                        const NamedSpec& named) {
  auto spec = ParseSpecText(named.text, named.name);
  if (!spec.ok()) return spec.status();
  spec->set_batch_size(4);
  SpecRunner::Options options;
  options.warm_batches = 1;
  auto runner = SpecRunner::Create(std::move(source), *spec, options);
  if (!runner.ok()) return runner.status();
  return (*runner)->Measure(absl::ZeroDuration()).status();
}

TEST(BenchSpecsTest, EveryPipelineRuns) {
  for (const NamedSpec& spec : kPipelines) {
    EXPECT_TRUE(RunShortly(Photographs(), spec).ok())
        << spec.name << ": " << RunShortly(Photographs(), spec);
  }
}

TEST(BenchSpecsTest, EveryTransformRuns) {
  for (const NamedSpec& spec : kTransforms) {
    EXPECT_TRUE(RunShortly(RawPixels(), spec).ok())
        << spec.name << ": " << RunShortly(RawPixels(), spec);
  }
}

TEST(SpecRunnerTest, CountsSamplesAndBytesOfWholeBatches) {
  PipelineSpec spec;
  spec.set_batch_size(4);
  SpecRunner::Options options;
  options.warm_batches = 3;
  auto runner = SpecRunner::Create(RawPixels(), spec, options);
  ASSERT_TRUE(runner.ok()) << runner.status();
  for (int call = 0; call < 3; ++call) {
    const auto rate = (*runner)->Measure(absl::Milliseconds(5));
    ASSERT_TRUE(rate.ok()) << rate.status();
    EXPECT_GT(rate->samples, 0u);
    EXPECT_EQ(rate->samples % 4, 0u);
    EXPECT_GE(rate->seconds, 0.005);
    EXPECT_GE(rate->payload_bytes, rate->samples * (256 * 256 * 3 + 8));
  }
}

TEST(SpecRunnerTest, RunsExactlyAsManyBatches) {
  PipelineSpec spec;
  spec.set_batch_size(4);  // two batches an epoch
  auto runner = SpecRunner::Create(RawPixels(), spec, {});
  ASSERT_TRUE(runner.ok()) << runner.status();
  for (const uint64_t batches : {1, 2, 5}) {
    const auto rate = (*runner)->Run(batches);
    ASSERT_TRUE(rate.ok()) << rate.status();
    EXPECT_EQ(rate->samples, 4 * batches);
    EXPECT_GE(rate->payload_bytes, rate->samples * (256 * 256 * 3 + 8));
  }
}

TEST(SpecRunnerTest, SaysWhatABadSampleSays) {
  Field image;
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  const auto source = storage::NewMemorySource(
      Info(image),
      {{"no image", std::string(8, '\0')}, {"nor this", std::string(8, '\0')}});
  const NamedSpec spec = {"bad",
                          "transforms { decode_image {} } transforms { resize "
                          "{ height: 8 width: 8 } }"};
  const auto parsed = ParseSpecText(spec.text, spec.name);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  PipelineSpec bad = *parsed;
  bad.set_batch_size(2);
  auto runner = SpecRunner::Create(source, bad, {});
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ((*runner)->Measure(absl::Seconds(1)).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ((*runner)->Run(1).status().code(), absl::StatusCode::kDataLoss);
}

// The floor must see what a decoder sees, so damage inside the crop is met, and
// none below it.
TEST(EntropyFloorTest, ReadsTheCropAndNothingBelow) {
  std::vector<uint8_t> jpeg = WriteJpeg({.width = 256, .height = 256}, 1);
  EntropyFloor floor;
  for (int divisor : {1, 2, 4, 8}) {
    const int side = 256 / divisor;
    EXPECT_TRUE(floor.Run(jpeg, {.divisor = divisor,
                                 .left = side / 4,
                                 .top = side / 4,
                                 .width = side / 2,
                                 .height = side / 2}));
  }
  // Without its second half the upper quarter is still there.
  jpeg.resize(jpeg.size() / 2);
  EXPECT_TRUE(floor.Run(jpeg, {.width = 256, .height = 64}));
  EXPECT_EXIT(floor.Run(jpeg, {.top = 192, .width = 256, .height = 64}),
              testing::ExitedWithCode(EXIT_FAILURE), "");
}

TEST(EntropyFloorTest, ProgressiveImagesHaveNone) {
  const auto jpeg =
      WriteJpeg({.width = 64, .height = 64, .progressive = true}, 1);
  EntropyFloor floor;
  EXPECT_FALSE(floor.Run(jpeg, {.width = 64, .height = 64}));
}

}  // namespace
}  // namespace millrace
