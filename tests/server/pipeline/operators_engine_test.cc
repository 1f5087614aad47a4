// Operators inside the engine: shared by its threads, the same batches for any
// number of them, damage handled by the policy of the spec.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/operators/operators.h"
#include "server/pipeline/engine.h"
#include "tests/server/pipeline/engine_fixture.h"
#include "tests/testing/subprocess.h"

namespace millrace::pipeline {
namespace {

// "image" is for the decoder "odd", grey and colour of several sizes; "x" is
// uint8 [6]. Sample 5 is damaged.
std::shared_ptr<const storage::RecordSource> OddImages(int64_t samples) {
  DatasetInfo info;
  Field& image = *info.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  Field& x = *info.mutable_schema()->add_fields();
  x.set_name("x");
  x.set_kind(FIELD_KIND_TENSOR);
  x.set_dtype(DTYPE_UINT8);
  x.add_shape(6);
  std::vector<std::vector<std::string>> all;
  for (int64_t i = 0; i < samples; ++i) {
    std::string bytes = "ODD";
    bytes.push_back(i % 3 == 0 ? 1 : 3);
    bytes.push_back(static_cast<char>(10 + i % 7));
    bytes.push_back(static_cast<char>(9 + i % 5));
    if (i == 5) bytes = "ODD";
    all.push_back({bytes, Int64Bytes(i * 1001).substr(0, 6)});
  }
  return storage::NewMemorySource(info, std::move(all));
}

constexpr char kSpec[] =
    "sources { dataset: 'odd' } batch_size: 8 seed: 4 "
    "transforms { decode_image { decoders { name: 'odd' } } } "
    "transforms { random_resized_crop { height: 6 width: 5 } } "
    "transforms { custom { name: 'paint' config: 'draw' p: 0.5 } } "
    "transforms { horizontal_flip {} } "
    "transforms { custom { name: 'rescale' config: 'same' p: 0.5 } } "
    "transforms { custom { name: 'rescale' } } "
    "transforms { custom { name: 'rescale' fields: 'x' } } ";

class OperatorsEngineTest : public ::testing::Test {
 protected:
  OperatorsEngineTest() {
    auto loaded = operators::Operators::Load(
        {testing::ProgramPath("tests/testing/operators/good.so")});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    operators_ = *std::move(loaded);
  }

  std::unique_ptr<Engine> MakeEngine(uint32_t threads) {
    auto engine = Engine::Create(
        {.threads = threads, .budget = &budget_, .operators = operators_.get()},
        {{"odd", OddImages(48)}});
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  // The payloads of the epoch; `status` is how it ended.
  static std::string Epoch(Engine& engine, const std::string& policy,
                           absl::Status* status) {
    const auto pipeline = engine.Open(
        Spec(std::string(kSpec) + "bad_samples { action: " + policy + " }"));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    if (!pipeline.ok()) return "";
    Arrivals arrivals;
    auto run = engine.Start(
        *pipeline, {.step_count = (*pipeline)->description().steps_per_epoch()},
        arrivals.callbacks());
    EXPECT_TRUE(run.ok()) << run.status();
    *status = arrivals.AwaitDone();
    std::string payloads;
    for (const auto& [step, batch] : arrivals.TakeBatches()) {
      payloads += PayloadText(batch);
    }
    return payloads;
  }

  ByteBudget budget_{uint64_t{1} << 30};
  std::shared_ptr<const operators::Operators> operators_;
};

TEST_F(OperatorsEngineTest, AnyNumberOfThreadsMakesTheSameBatches) {
  absl::Status status;
  const std::string alone = Epoch(*MakeEngine(1), "ZERO", &status);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_FALSE(alone.empty());
  const std::string together = Epoch(*MakeEngine(6), "ZERO", &status);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(together, alone);
}

TEST_F(OperatorsEngineTest, WhatADecoderRefusesIsABadSample) {
  const auto engine = MakeEngine(2);
  absl::Status status;
  Epoch(*engine, "FAIL", &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("decoder odd 1.0: truncated"),
            std::string::npos);
  Epoch(*engine, "SUBSTITUTE", &status);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GE(engine->stats().bad_samples, 2);
}

TEST_F(OperatorsEngineTest, BatchesHaveTheOperatorsTypes) {
  const auto engine = MakeEngine(1);
  const auto pipeline = engine->Open(Spec(kSpec));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const OpenResponse& plan = (*pipeline)->description();
  EXPECT_EQ(plan.tensors(0).dtype(), DTYPE_FLOAT32);
  EXPECT_EQ(plan.tensors(0).sample_shape_size(), 3);
  EXPECT_EQ(plan.tensors(1).name(), "x");
  EXPECT_EQ(plan.tensors(1).dtype(), DTYPE_FLOAT32);
  EXPECT_EQ(plan.tensors(1).sample_shape(0), 6);
}

// "image" and "mask" are raw, the boxes are float32 [2, 4].
std::shared_ptr<const storage::RecordSource> RawWithBoxes() {
  DatasetInfo info;
  for (const char* name : {"image", "mask"}) {
    Field& field = *info.mutable_schema()->add_fields();
    field.set_name(name);
    field.set_kind(FIELD_KIND_TENSOR);
    field.set_dtype(DTYPE_UINT8);
    for (int64_t size : {4, 6, 1}) field.add_shape(size);
  }
  Field& boxes = *info.mutable_schema()->add_fields();
  boxes.set_name("boxes");
  boxes.set_kind(FIELD_KIND_TENSOR);
  boxes.set_dtype(DTYPE_FLOAT32);
  boxes.add_shape(2);
  boxes.add_shape(4);
  const float stored[8] = {1, 0, 3, 2, 2, 1, 6, 4};
  const std::string bytes(reinterpret_cast<const char*>(stored),
                          sizeof(stored));
  return storage::NewMemorySource(
      info, {{std::string(24, 'i'), std::string(24, 'm'), bytes}});
}

class RawOperatorsTest : public OperatorsEngineTest {
 protected:
  // The one batch of the transforms over RawWithBoxes().
  batch::FilledBatch Batch(const std::string& transforms) {
    engine_ = *Engine::Create(
        {.threads = 1, .budget = &budget_, .operators = operators_.get()},
        {{"raw", RawWithBoxes()}});
    const auto pipeline =
        engine_->Open(Spec("sources { dataset: 'raw' } batch_size: 1 "
                           "field_roles { field: 'mask' role: MASK } "
                           "field_roles { field: 'boxes' role: BOXES_XYXY } " +
                           transforms));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    if (!pipeline.ok()) return {};
    Arrivals arrivals;
    auto run =
        engine_->Start(*pipeline, {.step_count = 1}, arrivals.callbacks());
    EXPECT_TRUE(run.ok()) << run.status();
    const absl::Status status = arrivals.AwaitDone();
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? arrivals.AwaitBatch() : batch::FilledBatch();
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(RawOperatorsTest, AnOperatorTakesBoxesThatGeometryHasMoved) {
  const batch::FilledBatch batch = Batch(
      "transforms { horizontal_flip { fields: ['image', 'mask', 'boxes'] p: 1 "
      "} } "
      "transforms { custom { name: 'rescale' config: 'flat' fields: 'boxes' } "
      "}");
  ASSERT_NE(batch.payload, nullptr);
  EXPECT_EQ(TensorValues<float>(batch, "boxes"),
            (std::vector<float>{3, 0, 5, 2, 0, 1, 4, 4}));
}

// No stage of the image reads its size: the mask's must not compare with
// whatever the thread has seen before.
TEST_F(RawOperatorsTest, AMaskKnowsTheSizeOfAnImageThatOnlyOperatorsRead) {
  const batch::FilledBatch batch = Batch(
      "transforms { custom { name: 'rescale' config: 'same' fields: 'image' } "
      "} transforms { custom { name: 'paint' fields: 'mask' p: 0 } }");
  ASSERT_NE(batch.payload, nullptr);
  EXPECT_EQ(TensorValues<uint8_t>(batch, "image"),
            std::vector<uint8_t>(24, 'j'));
  EXPECT_EQ(TensorValues<uint8_t>(batch, "mask"),
            std::vector<uint8_t>(24, 'm'));
}

}  // namespace
}  // namespace millrace::pipeline
