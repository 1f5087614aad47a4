// What `preview --explain` says is what training gets: the same bytes, and the
// parameters that they were made with.

#include "server/pipeline/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "server/plan/keys.h"
#include "tests/server/pipeline/engine_fixture.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Lines final : public ParameterLog {
 public:
  void BeginSample(int64_t index, uint64_t key) override {
    lines.push_back(absl::StrCat("sample ", index, " key ", key));
  }
  void BeginField(const std::string& field) override {
    lines.push_back("field " + field);
  }
  void Add(uint32_t place, std::string what) override {
    lines.push_back(absl::StrCat(place, ": ", what));
  }
  std::vector<std::string> lines;
};

// "image" uint8 [9, 11, 3] and a label of 10 classes; all different.
std::shared_ptr<const RecordSource> RawImages(int samples) {
  DatasetInfo info;
  Field& image = *info.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_TENSOR);
  image.set_dtype(DTYPE_UINT8);
  for (int dim : {9, 11, 3}) image.add_shape(dim);
  Field& label = *info.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(10);
  std::vector<std::vector<std::string>> all;
  for (int i = 0; i < samples; ++i) {
    std::string pixels(9 * 11 * 3, '\0');
    for (size_t k = 0; k < pixels.size(); ++k) {
      pixels[k] = static_cast<char>(Mix64(i * 1000 + k));
    }
    all.push_back({pixels, Int64Bytes(i % 10)});
  }
  return NewMemorySource(info, std::move(all));
}

class ExplainTest : public testing::Test {
 protected:
  ExplainTest() {
    Engine::Options options;
    options.threads = 2;
    options.budget = &budget_;
    auto engine = Engine::Create(options, {{"raw", RawImages(50)}});
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  std::shared_ptr<const Pipeline> Open(const std::string& text) {
    auto pipeline = engine_->Open(Spec("sources { dataset: 'raw' } " + text));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return *pipeline;
  }

  std::string EnginesPayload(const std::shared_ptr<const Pipeline>& pipeline,
                             uint64_t epoch, uint64_t step) {
    StepRange range;
    range.epoch = epoch;
    range.first_step = step;
    range.step_count = 1;
    Arrivals arrivals;
    auto run = engine_->Start(pipeline, range, arrivals.callbacks());
    EXPECT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(arrivals.AwaitDone().ok());
    return PayloadText(arrivals.TakeBatches().at(step));
  }

  ByteBudget budget_{256 << 20};
  std::unique_ptr<Engine> engine_;
};

TEST_F(ExplainTest, TheBytesAreThoseOfTheEngine) {
  for (const char* text :
       {"batch_size: 8",
        "batch_size: 8 transforms { random_resized_crop { height: 5 width: 4 } "
        "} transforms { color_jitter { brightness_min: 0.5 brightness_max: 1.5 "
        "hue_max: 0.2 } } transforms { random_erasing { p: 1 } }",
        "batch_size: 7 last_batch: LAST_BATCH_PAD transforms { "
        "random_crop { height: 8 width: 8 padding: 2 } } transforms { mix_up "
        "{} "
        "} transforms { normalize { mean: [0.5, 0.5, 0.5] stddev: [1, 1, 1] "
        "placement: PLACEMENT_SERVER } }"}) {
    const auto pipeline = Open(text);
    const uint64_t last = pipeline->description().steps_per_epoch() - 1;
    for (uint64_t step : {uint64_t{0}, last}) {
      Lines log;
      const auto payload = ExplainBatch(*pipeline, 3, step, log);
      ASSERT_TRUE(payload.ok()) << payload.status();
      EXPECT_EQ(*payload, EnginesPayload(pipeline, 3, step)) << text;
    }
  }
}

TEST_F(ExplainTest, EverySampleIsNamedWithItsKeyAndDraws) {
  const auto pipeline = Open(
      "batch_size: 2 shuffle { mode: SEQUENTIAL } seed: 9 "
      "transforms { horizontal_flip { p: 1 } } "
      "transforms { random_crop { height: 3 width: 3 } }");
  Lines log;
  ASSERT_TRUE(ExplainBatch(*pipeline, 1, 4, log).ok());
  ASSERT_EQ(log.lines.size(), 8u);
  for (int row : {0, 1}) {
    const int index = 8 + row;
    EXPECT_EQ(log.lines[row * 4], absl::StrCat("sample ", index, " key ",
                                               SampleKey(9, 1, 0, index, 0)));
    EXPECT_EQ(log.lines[row * 4 + 1], "field image");
    EXPECT_EQ(log.lines[row * 4 + 2], "0: flipped");
    EXPECT_THAT(log.lines[row * 4 + 3], StartsWith("1: "));
  }
}

TEST_F(ExplainTest, WhatIsDrawnForTheBatchComesFirst) {
  const auto pipeline = Open("batch_size: 4 transforms { mix_up {} }");
  Lines log;
  ASSERT_TRUE(ExplainBatch(*pipeline, 0, 0, log).ok());
  ASSERT_EQ(log.lines.size(), 5u);
  EXPECT_THAT(log.lines[0], StartsWith("0: "));
  EXPECT_THAT(log.lines[0], HasSubstr("lambda"));
  EXPECT_THAT(log.lines[4], StartsWith("sample "));
}

TEST_F(ExplainTest, AStepThatIsNotThereIsRefused) {
  Lines log;
  EXPECT_EQ(ExplainBatch(*Open("batch_size: 10"), 0, 5, log).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(log.lines.empty());
}

}  // namespace
}  // namespace millrace
