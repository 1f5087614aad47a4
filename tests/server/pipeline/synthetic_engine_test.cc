// Synthetic sources through the engine: samples that are read like any other,
// and ready batches that are not filled at all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "proto/error_detail.h"
#include "server/pipeline/engine.h"
#include "tests/server/pipeline/engine_fixture.h"
#include "xxhash.h"

namespace millrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kFields[] =
    "fields { name: 'image' dtype: DTYPE_UINT8 shape: [5, 4, 3] } "
    "fields { name: 'label' dtype: DTYPE_INT64 num_classes: 10 } ";

std::string Rows(const std::string& more, const std::string& fields = kFields) {
  return "sources { synthetic { " + fields + more + " } } batch_size: 12 ";
}

std::string BytesOf(const batch::FilledBatch& batch) {
  return std::string(reinterpret_cast<const char*>(batch.payload->data()),
                     batch.payload->bytes());
}

const TensorHeader& Tensor(const batch::FilledBatch& batch,
                           const std::string& name) {
  for (const TensorHeader& tensor : batch.header.tensors()) {
    if (tensor.name() == name) return tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  return batch.header.tensors(0);
}

int64_t SampleIndex(const batch::FilledBatch& batch, uint64_t row) {
  int64_t index;
  std::memcpy(
      &index,
      batch.payload->data() + Tensor(batch, "sample_index").offset() + 8 * row,
      sizeof(index));
  return index;
}

class SyntheticEngineTest : public testing::Test {
 protected:
  std::unique_ptr<Engine> Make(uint32_t threads,
                               uint64_t budget_bytes = 64 << 20,
                               bool refuse = false, uint32_t max_cached = 64) {
    budget_ = std::make_unique<ByteBudget>(budget_bytes);
    Engine::Options options;
    options.threads = threads;
    options.budget = budget_.get();
    options.max_cached_pipelines = max_cached;
    options.refuse_synthetic = refuse;
    auto engine = CreateEngine(options, {}, FakeStage::Create);
    EXPECT_TRUE(engine.ok()) << engine.status();
    idle_use_ = budget_->used();
    return *std::move(engine);
  }

  std::map<uint64_t, batch::FilledBatch> RunAll(Engine& engine,
                                                const std::string& text,
                                                StepRange range = {}) {
    const auto pipeline = engine.Open(Spec(text));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    if (!pipeline.ok()) return {};
    if (range.step_count == 0) {
      range.step_count = (*pipeline)->description().steps_per_epoch();
    }
    Arrivals arrivals;
    auto run = engine.Start(*pipeline, range, arrivals.callbacks());
    EXPECT_TRUE(run.ok()) << run.status();
    const absl::Status status = arrivals.AwaitDone();
    EXPECT_TRUE(status.ok()) << status;
    return arrivals.TakeBatches();
  }

  absl::Status OpenStatus(const std::string& text) {
    return Make(1)->Open(Spec(text)).status();
  }

  std::unique_ptr<ByteBudget> budget_;
  uint64_t idle_use_ = 0;  // of the budget without a batch
};

TEST_F(SyntheticEngineTest, EverySampleComesOnce) {
  auto engine = Make(3);
  const auto batches =
      RunAll(*engine, Rows("samples: 120 seed: 4") + "seed: 9");
  ASSERT_EQ(batches.size(), 10u);
  std::set<int64_t> seen;
  for (const auto& [step, batch] : batches) {
    for (uint64_t row = 0; row < 12; ++row)
      seen.insert(SampleIndex(batch, row));
  }
  EXPECT_EQ(seen.size(), 120u);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 119);
}

TEST_F(SyntheticEngineTest, ThreadsAndServersMakeNoDifference) {
  const std::string rows = Rows("samples: 120") + "shuffle { mode: GLOBAL }";
  const std::string ready = Rows("samples: 120 ready_batches: 3");
  for (const std::string& text : {rows, ready}) {
    std::map<uint64_t, std::string> one;
    std::string hash;
    for (const uint32_t threads : {1, 4}) {
      auto engine = Make(threads);
      const auto batches = RunAll(*engine, text);
      for (const auto& [step, batch] : batches) {
        if (threads == 1) {
          one[step] = BytesOf(batch);
        } else {
          EXPECT_EQ(one[step], BytesOf(batch)) << step;
        }
      }
      EXPECT_EQ(batches.size(), 10u);
      const auto& plan = (*engine->Open(Spec(text)))->description();
      EXPECT_EQ(plan.fingerprint().size(), 32u);
      if (threads == 1) hash = plan.plan_hash();
      EXPECT_EQ(plan.plan_hash(), hash);
    }
  }
}

TEST_F(SyntheticEngineTest, ATrillionSamplesAreOpenedAndSoughtInPlace) {
  auto engine = Make(2);
  StepRange range;
  range.epoch = 7;
  range.first_step = 83'333'333'332;
  range.step_count = 1;
  const auto batches = RunAll(*engine, Rows("samples: 1000000000000"), range);
  ASSERT_EQ(batches.size(), 1u);
  const batch::FilledBatch& batch = batches.begin()->second;
  EXPECT_EQ(batch.header.first_position(), 999'999'999'984);
  std::set<int64_t> seen;
  for (uint64_t row = 0; row < 12; ++row) {
    const int64_t index = SampleIndex(batch, row);
    EXPECT_GE(index, 0);
    EXPECT_LT(index, 1'000'000'000'000);
    seen.insert(index);
  }
  EXPECT_EQ(seen.size(), 12u);
}

// A pipeline that is thrown out takes its source along; the next one may lie
// where it was. A worker must not read the new one with a reader of the old.
TEST_F(SyntheticEngineTest, SourcesComeAndGo) {
  auto engine = Make(1, 64 << 20, false, /*max_cached=*/1);
  std::set<std::string> contents;
  for (int seed = 0; seed < 50; ++seed) {
    const auto batches =
        RunAll(*engine, Rows("samples: 12 seed: " + std::to_string(seed)) +
                            "shuffle { mode: SEQUENTIAL }");
    contents.insert(BytesOf(batches.at(0)));
  }
  EXPECT_EQ(contents.size(), 50u);
}

TEST_F(SyntheticEngineTest, ReadyBatchesAreTheSamePayloadsInTurn) {
  auto engine = Make(4);
  const auto batches =
      RunAll(*engine, Rows("samples: 120 ready_batches: 3 seed: 1"));
  ASSERT_EQ(batches.size(), 10u);
  std::set<const uint8_t*> memory;
  std::set<std::string> contents;
  for (const auto& [step, batch] : batches) {
    memory.insert(batch.payload->data());
    contents.insert(BytesOf(batch));
    EXPECT_EQ(batch.payload->data(), batches.at(step % 3).payload->data());
    EXPECT_EQ(batch.header.step(), step);
    EXPECT_EQ(batch.header.rows(), 12u);
    EXPECT_EQ(batch.header.local_valid(), 12u);
    EXPECT_EQ(batch.header.first_position(), 12 * step);
    EXPECT_EQ(SampleIndex(batch, 11), 11);
    const uint8_t* labels =
        batch.payload->data() + Tensor(batch, "label").offset();
    for (int row = 0; row < 12; ++row) {
      int16_t label;  // the type that ten classes travel in
      std::memcpy(&label, labels + 2 * row, sizeof(label));
      EXPECT_GE(label, 0);
      EXPECT_LT(label, 10);
    }
  }
  EXPECT_EQ(memory.size(), 3u);
  EXPECT_EQ(contents.size(), 3u);
}

TEST_F(SyntheticEngineTest, ReadyBatchesHaveTheDigestOfTheirPayload) {
  auto engine = Make(2);
  StepRange range;
  range.with_payload_digest = true;
  const std::string ready = Rows("samples: 120 ready_batches: 3 seed: 1");
  for (const char* compression : {"", "compression: COMPRESSION_ZSTD"}) {
    const auto batches = RunAll(*engine, ready + compression, range);
    ASSERT_EQ(batches.size(), 10u);
    for (const auto& [step, batch] : batches) {
      const std::string payload = BytesOf(batch);
      EXPECT_EQ(batch.header.payload_xxh3(),
                XXH3_64bits(payload.data(), payload.size()))
          << "step " << step;
    }
  }
}

TEST_F(SyntheticEngineTest, ReadyBatchesAreBudgetedAndGivenBack) {
  auto engine = Make(2);
  const std::string image =
      "fields { name: 'image' dtype: DTYPE_UINT8 shape: [100, 100, 3] } ";
  auto batches = RunAll(*engine, Rows("samples: 120 ready_batches: 2", image));
  // Two payloads of 12 x 30,000 bytes for ten batches, and the bookkeeping of
  // each.
  EXPECT_GE(budget_->used() - idle_use_, 2 * 360'000u + 10 * 4096u);
  EXPECT_LE(budget_->used() - idle_use_, 3 * 360'000u);
  batches.erase(0);
  EXPECT_GE(budget_->used() - idle_use_, 2 * 360'000u + 9 * 4096u);
  batches.clear();
  engine.reset();
  EXPECT_EQ(budget_->used(), 0u);
}

// They are packed where they lie.
TEST_F(SyntheticEngineTest, BatchesThatWillBePackedAreCopiesOfTheirOwn) {
  auto engine = Make(2);
  const std::string ready = Rows("samples: 120 ready_batches: 3 seed: 1");
  const auto shared = RunAll(*engine, ready);
  const auto copies = RunAll(*engine, ready + "compression: COMPRESSION_ZSTD");
  ASSERT_EQ(copies.size(), 10u);
  std::set<const uint8_t*> memory;
  for (const auto& [step, batch] : copies) {
    memory.insert(batch.payload->data());
    EXPECT_EQ(BytesOf(batch), BytesOf(shared.at(step)));
  }
  EXPECT_EQ(memory.size(), 10u);
}

TEST_F(SyntheticEngineTest, RanksOfAWorldGetTheirRows) {
  auto engine = Make(2);
  StepRange range;
  range.rank = 2;
  range.world_size = 3;
  const auto batches =
      RunAll(*engine, Rows("samples: 120 ready_batches: 3"), range);
  ASSERT_EQ(batches.size(), 10u);
  EXPECT_EQ(batches.at(4).header.rows(), 4u);
  EXPECT_EQ(batches.at(4).header.first_position(), 4 * 12u + 8u);
}

TEST_F(SyntheticEngineTest, ReadyBatchesThatDoNotFitAreRefusedByArithmetic) {
  auto engine = Make(1, 4 << 20);
  const auto pipeline = engine->Open(
      Spec(Rows("samples: 120 ready_batches: 64",
                "fields { name: 'x' dtype: DTYPE_UINT8 shape: [100, 100] } ")));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const auto bytes = (*pipeline)->MaxPayloadBytes(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(bytes.status())) << bytes.status();
  EXPECT_THAT(std::string(bytes.status().message()),
              HasSubstr("64 of 117 KiB (120192 bytes) must fit into half of "
                        "the memory"));
  EXPECT_TRUE((*pipeline)->MaxPayloadBytes(12).ok());
}

TEST_F(SyntheticEngineTest, WithoutRoomForTheMomentTheyAreAskedForAgain) {
  auto engine = Make(1, 4 << 20);
  const auto pipeline = engine->Open(
      Spec(Rows("samples: 120 ready_batches: 2",
                "fields { name: 'x' dtype: DTYPE_UINT8 shape: [100, 100] } ")));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  ByteBudget::Reservation others;
  ASSERT_TRUE(budget_->TryReserve(
      budget_->capacity() - budget_->used() - 200'000, &others));
  StepRange range;
  range.step_count = 1;
  Arrivals arrivals;
  const auto run = engine->Start(*pipeline, range, arrivals.callbacks());
  ASSERT_TRUE(absl::IsResourceExhausted(run.status())) << run.status();
  EXPECT_GT(GetErrorDetail(run.status()).retry_delay_ms(), 0);
  const uint64_t used = budget_->used();
  others.Release();
  EXPECT_EQ(budget_->used(), idle_use_) << used;
  auto again = engine->Start(*pipeline, range, arrivals.callbacks());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(arrivals.AwaitDone().ok());
}

// Sets of other rows, seeds or fields are others; jobs go on beside all of
// them.
TEST_F(SyntheticEngineTest, AllReadyBatchesTogetherLeaveHalfOfTheMemory) {
  auto engine = Make(1, 4 << 20);
  const auto open = [&](int seed) {
    auto pipeline = engine->Open(Spec(
        Rows("samples: 120 ready_batches: 9 seed: " + std::to_string(seed),
             "fields { name: 'x' dtype: DTYPE_UINT8 shape: [100, 100] } ")));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return *pipeline;
  };
  StepRange range;
  range.step_count = 1;
  Arrivals arrivals, later;
  {
    const auto run = engine->Start(open(1), range, arrivals.callbacks());
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(arrivals.AwaitDone().ok());
  }
  // Its batch keeps the set.
  const uint64_t used = budget_->used();
  EXPECT_GT(used, idle_use_ + 1'000'000);
  const auto refused = engine->Start(open(2), range, later.callbacks());
  ASSERT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_GT(GetErrorDetail(refused.status()).retry_delay_ms(), 0);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("no memory for 9 ready batches: "),
                    HasSubstr(" MiB are needed, but of the "),
                    HasSubstr("for all ready batches together"),
                    HasSubstr("or lower ready_batches (0 needs no such")));
  EXPECT_EQ(budget_->used(), used);
  arrivals.TakeBatches();
  // The worker that told of its end may hold the run a moment longer.
  while (budget_->used() > idle_use_) std::this_thread::yield();
  auto again = engine->Start(open(2), range, later.callbacks());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(later.AwaitDone().ok());
}

TEST_F(SyntheticEngineTest, AServerMayRefuseThem) {
  auto engine = Make(1, 64 << 20, /*refuse=*/true);
  const absl::Status status = engine->Open(Spec(Rows("samples: 120"))).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--refuse_synthetic"));
}

TEST_F(SyntheticEngineTest, WhatMakesNoSenseIsRefusedWithItsPlace) {
  const auto refused = [this](const std::string& text) {
    const absl::Status status = OpenStatus(text);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(GetErrorDetail(status).stage(), "plan");
    return std::string(status.message());
  };
  EXPECT_THAT(refused(Rows("samples: 0")),
              HasSubstr("sources[0].synthetic: the synthetic source has 0"));
  EXPECT_THAT(refused("sources { dataset: 'd' synthetic { samples: 9 " +
                      std::string(kFields) + "} } batch_size: 3"),
              HasSubstr("dataset and synthetic cannot be used together"));
  EXPECT_THAT(
      refused("sources { synthetic { samples: 9 " + std::string(kFields) +
              "} } sources { dataset: 'd' } batch_size: 3"),
      HasSubstr("must be the only source"));
  EXPECT_THAT(refused(Rows("samples: 99 ready_batches: 2") +
                      "transforms { vertical_flip {} }"),
              HasSubstr("ready batches are sent unchanged"));
  EXPECT_THAT(refused(Rows("samples: 99 ready_batches: 2") +
                      "last_batch: LAST_BATCH_PAD"),
              HasSubstr("ready batches are always full"));
}

TEST_F(SyntheticEngineTest, TransformsRunOverSyntheticImages) {
  auto engine = Make(2);
  // FakeStage makes 4 x 4 x 1 of whatever it is given.
  const auto batches = RunAll(
      *engine,
      Rows("samples: 24",
           "fields { name: 'image' dtype: DTYPE_UINT8 shape: [4, 4, 1] } ") +
          "transforms { horizontal_flip {} }");
  EXPECT_EQ(batches.size(), 2u);
}

}  // namespace
}  // namespace millrace::pipeline
