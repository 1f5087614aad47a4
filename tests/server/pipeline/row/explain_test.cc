// What `preview --explain` says is what training gets: the same bytes, and the
// parameters that they were made with.

#include "server/pipeline/row/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "proto/error_detail.h"
#include "server/decode/decoder_digest.h"
#include "server/plan/keys.h"
#include "tests/server/pipeline/engine_fixture.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Lines final : public augment::ParameterLog {
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
std::shared_ptr<const storage::RecordSource> RawImages(int samples) {
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
      pixels[k] = static_cast<char>(plan::Mix64(i * 1000 + k));
    }
    all.push_back({pixels, Int64Bytes(i % 10)});
  }
  return storage::NewMemorySource(info, std::move(all));
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

// What the decoders make is part of what Open answers where images are decoded.
TEST_F(ExplainTest, TheEngineDecodesTheBuiltInImages) {
  const auto digest = decode::DecoderDigest();
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_EQ(engine_->decoder_digest(), *digest);
  EXPECT_EQ(Open("batch_size: 8")->description().decoder_digest(), "");
  DatasetInfo info;
  Field& image = *info.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  std::string hashes[2];
  for (int i : {0, 1}) {
    ByteBudget budget(256 << 20);
    Engine::Options options;
    options.threads = 1;
    options.budget = &budget;
    if (i == 1) options.decoder_digest = "of another libjpeg";
    auto engine = Engine::Create(
        options, {{"jpegs", storage::NewMemorySource(info, {{"1"}})}});
    ASSERT_TRUE(engine.ok()) << engine.status();
    const auto pipeline =
        (*engine)->Open(Spec("sources { dataset: 'jpegs' } batch_size: 1 "
                             "transforms { decode_image {} } "
                             "transforms { resize { height: 8 width: 8 } }"));
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    EXPECT_EQ((*pipeline)->description().decoder_digest(),
              i == 1 ? "of another libjpeg" : *digest);
    hashes[i] = (*pipeline)->description().plan_hash();
  }
  EXPECT_NE(hashes[0], hashes[1]);
}

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
    EXPECT_EQ(log.lines[row * 4],
              absl::StrCat("sample ", index, " key ",
                           plan::SampleKey(9, 1, 0, index, 0)));
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

// What a preview of the whole batch says, in the parts that ranks and short
// answers cut it into: partners of other ranks and padding do not confuse it.
TEST_F(ExplainTest, RowsOfRanksSayWhatTheWholeBatchSays) {
  for (const char* text :
       {"batch_size: 8 transforms { horizontal_flip { p: 0.5 } } "
        "transforms { random_crop { height: 3 width: 3 } }",
        // Three rows a rank: a pair lies across the border.
        "batch_size: 6 last_batch: LAST_BATCH_PAD transforms { random_crop { "
        "height: 8 width: 8 padding: 2 } } transforms { mix_up {} }"}) {
    SCOPED_TRACE(text);
    const auto pipeline = Open(text);
    const uint64_t last = pipeline->description().steps_per_epoch() - 1;
    for (const uint64_t step : {uint64_t{0}, last}) {
      Lines log;
      ASSERT_TRUE(ExplainBatch(*pipeline, 3, step, log).ok());
      log.lines.erase(std::remove(log.lines.begin(), log.lines.end(),
                                  std::string("field image")),
                      log.lines.end());
      for (const uint32_t world : {1, 2}) {
        std::vector<std::string> lines;
        uint64_t position =
            step * pipeline->description().resolved_spec().batch_size();
        for (uint32_t rank = 0; rank < world; ++rank) {
          StepRange range;
          range.epoch = 3;
          range.first_step = step;
          range.step_count = 1;
          range.rank = rank;
          range.world_size = world;
          uint64_t rows = 1;
          for (uint64_t row = 0; row < rows;) {
            ExplainBatchResponse part;
            const absl::Status status =
                pipeline->ExplainRows(range, row, 2, &part);
            ASSERT_TRUE(status.ok()) << status;
            rows = part.rows();
            if (lines.empty()) {
              for (const Drawn& drawn : part.drawn()) {
                lines.push_back(
                    absl::StrCat(drawn.place(), ": ", drawn.what()));
              }
            }
            ASSERT_GT(part.explained_size(), 0);
            for (const ExplainedRow& explained : part.explained()) {
              EXPECT_EQ(explained.row(), row++);
              EXPECT_EQ(explained.position(), position++);
              if (explained.sample() < 0) continue;  // padding
              EXPECT_EQ(explained.dataset(), "raw");
              lines.push_back(absl::StrCat("sample ", explained.sample(),
                                           " key ", explained.key()));
              for (const Drawn& drawn : explained.drawn()) {
                EXPECT_EQ(drawn.field(), "image");
                lines.push_back(
                    absl::StrCat(drawn.place(), ": ", drawn.what()));
              }
            }
          }
        }
        EXPECT_EQ(lines, log.lines) << "world " << world << " step " << step;
      }
    }
  }
}

TEST_F(ExplainTest, RowsToExplainTakeMemoryOfTheBudget) {
  ByteBudget budget(64 << 20);
  Engine::Options options;
  options.threads = 1;
  options.budget = &budget;
  options.admission_timeout = absl::Milliseconds(20);
  auto engine = Engine::Create(options, {{"raw", RawImages(50)}});
  ASSERT_TRUE(engine.ok()) << engine.status();
  auto pipeline =
      (*engine)->Open(Spec("sources { dataset: 'raw' } batch_size: 10"));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  StepRange range;
  range.step_count = 1;
  const uint64_t idle = budget.used();
  ExplainBatchResponse response;
  ASSERT_TRUE((*pipeline)->ExplainRows(range, 0, 10, &response).ok());
  EXPECT_GT(budget.peak(), idle);
  EXPECT_EQ(budget.used(), idle);
  // Batches have it all.
  ByteBudget::Reservation all;
  ASSERT_TRUE(budget.TryReserve(budget.capacity() - idle, &all));
  const absl::Status refused =
      (*pipeline)->ExplainRows(range, 0, 10, &response);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_GT(GetErrorDetail(refused).retry_delay_ms(), 0);
  EXPECT_EQ(budget.waiting(), 0u);
  all.Release();
  EXPECT_TRUE((*pipeline)->ExplainRows(range, 0, 10, &response).ok());
  EXPECT_EQ(budget.used(), idle);
}

// Whose plan hash is known can be asked for without Open, which refuses it.
TEST_F(ExplainTest, ARowLargerThanTheMemoryIsRefused) {
  const auto pipeline = Open(
      "batch_size: 1 transforms { random_resized_crop { height: 12000 width: "
      "12000 } }");
  StepRange range;
  range.step_count = 1;
  ExplainBatchResponse response;
  const absl::Status refused = pipeline->ExplainRows(range, 0, 1, &response);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("memory: 412 MiB (432000011 bytes)"));
}

TEST_F(ExplainTest, EndsWhenItIsTold) {
  const auto pipeline = Open("batch_size: 8");
  StepRange range;
  range.step_count = 1;
  ExplainBatchResponse response;
  int asked = 0;
  const auto stop = [&asked] {
    return ++asked < 4 ? absl::OkStatus() : absl::CancelledError("no more");
  };
  EXPECT_EQ(pipeline->ExplainRows(range, 0, 8, &response, stop),
            absl::CancelledError("no more"));
  EXPECT_EQ(response.explained_size(), 3);
  // Also while it waits for memory, for which there is no other end here.
  ByteBudget budget(64 << 20);
  Engine::Options options;
  options.threads = 1;
  options.budget = &budget;
  options.admission_timeout = absl::ZeroDuration();
  auto engine = Engine::Create(options, {{"raw", RawImages(50)}});
  ASSERT_TRUE(engine.ok()) << engine.status();
  auto other =
      (*engine)->Open(Spec("sources { dataset: 'raw' } batch_size: 8"));
  ASSERT_TRUE(other.ok()) << other.status();
  ByteBudget::Reservation all;
  ASSERT_TRUE(budget.TryReserve(budget.capacity() - budget.used(), &all));
  asked = 0;
  EXPECT_EQ((*other)->ExplainRows(range, 0, 8, &response, stop),
            absl::CancelledError("no more"));
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(budget.waiting(), 0u);
}

TEST_F(ExplainTest, RowsThatAreNotThereAreRefused) {
  const auto pipeline = Open("batch_size: 8");
  StepRange range;
  range.step_count = 1;
  ExplainBatchResponse response;
  EXPECT_TRUE(
      absl::IsOutOfRange(pipeline->ExplainRows(range, 8, 1, &response)));
  range.first_step = 1000;
  EXPECT_TRUE(
      absl::IsOutOfRange(pipeline->ExplainRows(range, 0, 1, &response)));
}

}  // namespace
}  // namespace millrace::pipeline
