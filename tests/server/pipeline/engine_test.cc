#include "server/pipeline/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "proto/error_detail.h"
#include "tests/server/pipeline/engine_fixture.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;

class EngineTest : public EngineFixture {
 protected:
  std::unique_ptr<Engine> Make(uint32_t threads, DatasetCatalog catalog,
                               uint64_t budget_bytes = 64 << 20,
                               absl::Duration timeout = absl::Seconds(60),
                               uint32_t max_cached = 64) {
    Engine::Options options;
    options.threads = threads;
    options.admission_timeout = timeout;
    options.max_cached_pipelines = max_cached;
    return Create(options, std::move(catalog), budget_bytes);
  }

  absl::Status RunStatus(Engine& engine, const std::string& text) {
    const auto pipeline = Open(engine, text);
    StepRange range;
    range.step_count = pipeline->description().steps_per_epoch();
    Arrivals arrivals;
    auto run = engine.Start(pipeline, range, arrivals.callbacks());
    EXPECT_TRUE(run.ok()) << run.status();
    return arrivals.AwaitDone();
  }
};

TEST_F(EngineTest, EverySampleComesOnceWithItsOwnBytes) {
  auto engine = Make(4, {{"numbers", Numbers(1003)}});
  const auto batches =
      RunAll(*engine, "sources { dataset: 'numbers' } batch_size: 10 seed: 5");
  ASSERT_EQ(batches.size(), 100u);
  std::set<int64_t> seen;
  for (const auto& [step, batch] : batches) {
    EXPECT_EQ(batch.header.rows(), 10u);
    EXPECT_EQ(batch.header.first_position(), step * 10);
    EXPECT_EQ(batch.header.local_valid(), 10u);
    EXPECT_EQ(batch.header.global_valid(), 10u);
    EXPECT_EQ(batch.header.payload_bytes(), batch.payload->bytes());
    const auto x = TensorValues<uint8_t>(batch, "x");
    const auto label = TensorValues<int16_t>(batch, "label");
    const auto index = TensorValues<int64_t>(batch, "sample_index");
    for (int row = 0; row < 10; ++row) {
      EXPECT_TRUE(seen.insert(index[row]).second);
      EXPECT_EQ(label[row], index[row] % 10);
      const std::string wanted =
          Int64Bytes(index[row]).substr(0, 3) +
          Int64Bytes(index[row] * index[row]).substr(0, 3);
      EXPECT_EQ(std::memcmp(&x[row * 6], wanted.data(), 6), 0);
    }
    EXPECT_EQ(TensorValues<uint8_t>(batch, "valid"),
              std::vector<uint8_t>(10, 1));
  }
  EXPECT_EQ(seen.size(), 1000u);
}

// The one idea: a batch is a function of spec, content, epoch, step, rank and
// world size, and not of who computes it.
TEST_F(EngineTest, OneThreadAndManyGiveTheSameBytes) {
  const DatasetCatalog catalog = {{"images", Images(211, {5, 60, 61, 150})},
                                  {"numbers", Numbers(211)}};
  for (const std::string& text :
       {std::string("sources { dataset: 'numbers' } batch_size: 12 seed: 3 "
                    "last_batch: LAST_BATCH_PAD"),
        std::string("sources { dataset: 'images' } batch_size: 12 seed: 3 "
                    "last_batch: LAST_BATCH_PARTIAL "
                    "bad_samples { action: SUBSTITUTE } ") +
            kImageTransforms,
        std::string("sources { dataset: 'images' subset { to: 0.7 seed: 1 } } "
                    "batch_size: 12 bad_samples { action: ZERO } ") +
            kImageTransforms}) {
    std::map<uint64_t, std::string> wanted;
    for (uint32_t threads : {1, 2, 8}) {
      auto engine = Make(threads, catalog);
      for (int repeat = 0; repeat < 3; ++repeat) {
        StepRange range;
        range.epoch = 2;
        range.with_payload_digest = true;
        for (const auto& [step, batch] : RunAll(*engine, text, range)) {
          const std::string payload = PayloadText(batch);
          const auto [it, first] = wanted.emplace(step, payload);
          EXPECT_EQ(it->second, payload) << "step " << step;
          EXPECT_EQ(batch.header.payload_xxh3(),
                    XXH3_64bits(payload.data(), payload.size()));
        }
      }
    }
  }
}

TEST_F(EngineTest, RanksTakeSlicesOfTheSameGlobalBatches) {
  auto engine = Make(3, {{"images", Images(101)}});
  const std::string text =
      std::string(
          "sources { dataset: 'images' } batch_size: 12 seed: 9 "
          "last_batch: LAST_BATCH_PARTIAL ") +
      kImageTransforms;
  std::map<uint64_t, std::string> image, index;
  for (uint32_t world : {1, 2, 3, 12}) {
    std::map<uint64_t, std::string> images, indices;
    for (uint32_t rank = 0; rank < world; ++rank) {
      StepRange range;
      range.rank = rank;
      range.world_size = world;
      for (const auto& [step, batch] : RunAll(*engine, text, range)) {
        for (uint8_t v : TensorValues<uint8_t>(batch, "image")) {
          images[step].push_back(static_cast<char>(v));
        }
        for (int64_t v : TensorValues<int64_t>(batch, "sample_index")) {
          indices[step] += Int64Bytes(v);
        }
      }
    }
    if (world == 1) {
      image = images;
      index = indices;
      ASSERT_EQ(image.size(), 9u);
    }
    EXPECT_EQ(images, image) << world;
    EXPECT_EQ(indices, index) << world;
  }
}

TEST_F(EngineTest, PaddingIsZerosWithoutAnIndex) {
  auto engine = Make(2, {{"numbers", Numbers(5)}});
  const auto batches = RunAll(*engine,
                              "sources { dataset: 'numbers' } batch_size: 4 "
                              "last_batch: LAST_BATCH_PAD");
  ASSERT_EQ(batches.size(), 2u);
  const batch::FilledBatch& last = batches.at(1);
  EXPECT_EQ(last.header.rows(), 4u);
  EXPECT_EQ(last.header.local_valid(), 1u);
  EXPECT_EQ(last.header.global_valid(), 1u);
  EXPECT_EQ(TensorValues<uint8_t>(last, "valid"),
            (std::vector<uint8_t>{1, 0, 0, 0}));
  const auto label = TensorValues<int16_t>(last, "label");
  const auto index = TensorValues<int64_t>(last, "sample_index");
  const auto x = TensorValues<uint8_t>(last, "x");
  for (int row = 1; row < 4; ++row) {
    EXPECT_EQ(label[row], -100);
    EXPECT_EQ(index[row], -1);
  }
  EXPECT_TRUE(
      std::all_of(x.begin() + 6, x.end(), [](uint8_t v) { return v == 0; }));
}

// "mask" is uint8 [2, 2, 1] of the sample's index, "image" [2, 2, channels].
std::shared_ptr<const storage::RecordSource> Masked(int64_t samples,
                                                    int64_t channels) {
  DatasetInfo info;
  for (const char* name : {"image", "mask"}) {
    Field& field = *info.mutable_schema()->add_fields();
    field.set_name(name);
    field.set_kind(FIELD_KIND_TENSOR);
    field.set_dtype(DTYPE_UINT8);
    const int64_t last = std::string(name) == "mask" ? 1 : channels;
    for (int64_t size : {int64_t{2}, int64_t{2}, last}) field.add_shape(size);
  }
  std::vector<std::vector<std::string>> all;
  for (int64_t i = 0; i < samples; ++i) {
    all.push_back(
        {std::string(4 * channels, 'i'), std::string(4, static_cast<char>(i))});
  }
  return storage::NewMemorySource(info, std::move(all));
}

// A row without a sample must not teach class 0.
TEST_F(EngineTest, EmptyMasksHoldTheFillOfTheirRole) {
  auto engine = Make(1, {{"masks", Masked(5, 3)}});
  const std::string spec =
      "sources { dataset: 'masks' } batch_size: 4 last_batch: LAST_BATCH_PAD "
      "shuffle { mode: SEQUENTIAL } "
      "field_roles { field: 'mask' role: MASK fill: 255 } ";
  const std::vector<uint8_t> wanted = {4,   4,   4,   4,   255, 255, 255, 255,
                                       255, 255, 255, 255, 255, 255, 255, 255};
  const auto plain = RunAll(*engine, spec);
  EXPECT_EQ(TensorValues<uint8_t>(plain.at(1), "mask"), wanted);
  const auto image = TensorValues<uint8_t>(plain.at(1), "image");
  EXPECT_EQ(image.back(), 0);
  const auto planes =
      RunAll(*engine, spec + "outputs { field: 'mask' layout: NCHW }");
  EXPECT_EQ(TensorValues<uint8_t>(planes.at(1), "mask"), wanted);
  const auto wide =
      RunAll(*engine, spec +
                          "transforms { to_dtype { fields: 'mask' dtype: "
                          "DTYPE_INT64 placement: PLACEMENT_SERVER } }");
  EXPECT_EQ(TensorValues<int64_t>(wide.at(1), "mask"),
            std::vector<int64_t>(wanted.begin(), wanted.end()));
}

// What no client could compute is refused before the job starts.
TEST_F(EngineTest, OpenRefusesWhatTheTrainerCannotCompute) {
  auto engine = Make(1, {{"masks", Masked(5, 5000)}});
  std::string normalize = "transforms { normalize {";
  for (int i = 0; i < 5000; ++i) normalize += " mean: 0.5 stddev: 0.5";
  const absl::Status refused =
      engine
          ->Open(Spec("sources { dataset: 'masks' } batch_size: 1 " +
                      normalize + " } }"))
          .status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("has 5000 channels; the maximum is 4096"));
}

TEST_F(EngineTest, ARankWithoutRowsGetsAnEmptyBatch) {
  auto engine = Make(2, {{"numbers", Numbers(5)}});
  StepRange range;
  range.first_step = 1;
  range.step_count = 1;
  range.world_size = 4;
  range.rank = 0;
  const auto batches = RunAll(*engine,
                              "sources { dataset: 'numbers' } batch_size: 4 "
                              "last_batch: LAST_BATCH_PARTIAL",
                              range);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches.at(1).header.rows(), 0u);
  EXPECT_EQ(batches.at(1).header.global_valid(), 1u);
  EXPECT_EQ(batches.at(1).payload->bytes(), 0u);
}

TEST_F(EngineTest, ABadSampleIsNamedToTheRow) {
  auto engine = Make(2, {{"images", Images(40, {23})}});
  const absl::Status status = RunStatus(
      *engine, std::string("sources { dataset: 'images' } batch_size: 8 ") +
                   kImageTransforms);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no image"));
  const ErrorDetail detail = GetErrorDetail(status);
  EXPECT_EQ(detail.stage(), "decode");
  EXPECT_EQ(detail.dataset(), "images");
  EXPECT_EQ(detail.shard(), "part-2");
  EXPECT_EQ(detail.row(), 3);
  EXPECT_EQ(detail.sample(), 23);
  EXPECT_EQ(engine->stats().bad_samples, 1u);
  // The server goes on serving.
  EXPECT_EQ(RunAll(*engine,
                   "sources { dataset: 'images' } batch_size: 8 "
                   "outputs { field: 'label' }")
                .size(),
            5u);
}

TEST_F(EngineTest, SubstitutePutsASoundNeighbourIntoTheRow) {
  auto engine = Make(3, {{"images", Images(40, {23, 24, 39})}});
  const auto batches =
      RunAll(*engine, std::string("sources { dataset: 'images' } batch_size: 8 "
                                  "shuffle { mode: SEQUENTIAL } "
                                  "bad_samples { action: SUBSTITUTE } ") +
                          kImageTransforms);
  std::vector<int64_t> order;
  for (const auto& [step, batch] : batches) {
    const auto index = TensorValues<int64_t>(batch, "sample_index");
    const auto label = TensorValues<int16_t>(batch, "label");
    order.insert(order.end(), index.begin(), index.end());
    for (int row = 0; row < 8; ++row) EXPECT_EQ(label[row], index[row] % 10);
    EXPECT_EQ(batch.header.local_valid(), 8u);
  }
  EXPECT_EQ(order[23], 25);
  EXPECT_EQ(order[24], 25);
  EXPECT_EQ(order[39], 0);  // wraps round
  EXPECT_EQ(order[22], 22);
  EXPECT_EQ(engine->stats().bad_samples, 4u);  // 23 and 24, 24, 39
  std::map<int64_t, uint64_t> listed;
  for (const BadSample& bad : engine->stats().recent_bad_samples) {
    EXPECT_EQ(bad.dataset(), "images");
    EXPECT_EQ(bad.shard(), "part-" + std::to_string(bad.sample() / 10));
    EXPECT_EQ(bad.row(), bad.sample() % 10);
    listed[bad.sample()] = bad.times();
  }
  EXPECT_EQ(listed, (std::map<int64_t, uint64_t>{{23, 1}, {24, 2}, {39, 1}}));
}

// It gave up after the 16 samples behind a damaged one: a damaged shard ended
// the job.
TEST_F(EngineTest, SubstituteLeavesALongRunOfBadSamples) {
  std::vector<int64_t> bad;
  for (int64_t i = 100; i < 250; ++i) bad.push_back(i);
  const std::string text = std::string(
                               "sources { dataset: 'images' } batch_size: 40 "
                               "shuffle { mode: SEQUENTIAL } "
                               "bad_samples { action: SUBSTITUTE } ") +
                           kImageTransforms;
  std::map<uint64_t, std::string> wanted;
  for (const uint32_t threads : {1u, 4u}) {
    auto engine = Make(threads, {{"images", Images(400, bad)}});
    for (const auto& [step, batch] : RunAll(*engine, text)) {
      EXPECT_EQ(batch.header.local_valid(), 40u);
      const auto index = TensorValues<int64_t>(batch, "sample_index");
      for (uint64_t row = 0; row < 40; ++row) {
        const auto asked = static_cast<int64_t>(step * 40 + row);
        EXPECT_TRUE(index[row] < 100 || index[row] >= 250) << index[row];
        if (asked < 100 || asked >= 250) {
          EXPECT_EQ(index[row], asked);
        }
        // As before where one of the 16 behind is sound.
        if (asked >= 234 && asked < 250) {
          EXPECT_EQ(index[row], 250);
        }
      }
      const auto [it, first] = wanted.emplace(step, PayloadText(batch));
      EXPECT_EQ(it->second, PayloadText(batch)) << "step " << step;
    }
  }
  EXPECT_EQ(wanted.size(), 10u);
}

TEST_F(EngineTest, SubstituteGivesUpWhenAllAreBad) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < 40; ++i) all.push_back(i);
  auto engine = Make(2, {{"images", Images(40, all)}});
  const absl::Status status = RunStatus(
      *engine, std::string("sources { dataset: 'images' } batch_size: 8 "
                           "bad_samples { action: SUBSTITUTE } ") +
                   kImageTransforms);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("damaged too"));
  EXPECT_EQ(GetErrorDetail(status).dataset(), "images");
}

TEST_F(EngineTest, ZeroEmptiesTheRowAndKeepsItsIndex) {
  auto engine = Make(3, {{"images", Images(40, {23, 24})}});
  const auto batches =
      RunAll(*engine, std::string("sources { dataset: 'images' } batch_size: 8 "
                                  "shuffle { mode: SEQUENTIAL } "
                                  "bad_samples { action: ZERO } ") +
                          kImageTransforms);
  const batch::FilledBatch& batch = batches.at(2);  // samples 16 .. 23
  EXPECT_EQ(batch.header.local_valid(), 7u);
  EXPECT_EQ(batch.header.rows(), 8u);
  EXPECT_EQ(TensorValues<int64_t>(batch, "sample_index")[7], 23);
  EXPECT_EQ(TensorValues<int16_t>(batch, "label")[7], -100);
  EXPECT_EQ(TensorValues<uint8_t>(batch, "valid")[7], 0);
  const auto image = TensorValues<uint8_t>(batch, "image");
  EXPECT_TRUE(std::all_of(image.begin() + 7 * 16, image.end(),
                          [](uint8_t v) { return v == 0; }));
}

TEST_F(EngineTest, DescribesItsTensors) {
  auto engine = Make(1, {{"images", Images(43)}});
  const auto pipeline =
      Open(*engine, std::string("sources { dataset: 'images' } batch_size: 8 "
                                "outputs { field: 'label' } "
                                "outputs { field: 'image' name: 'pixels' } ") +
                        kImageTransforms);
  const OpenResponse& d = pipeline->description();
  ASSERT_EQ(d.tensors_size(), 4);
  EXPECT_EQ(d.tensors(0).name(), "label");
  EXPECT_EQ(d.tensors(0).num_classes(), 10);
  // Classes and -100 travel as int16 and widen on the device.
  EXPECT_EQ(d.tensors(0).dtype(), DTYPE_INT16);
  EXPECT_EQ(d.tensors(0).device_transform().dtype(), DTYPE_INT64);
  EXPECT_EQ(d.tensors(0).device_transform().scale(), 0);
  EXPECT_EQ(d.tensors(1).name(), "pixels");
  EXPECT_EQ(d.tensors(1).dtype(), DTYPE_UINT8);
  EXPECT_THAT(d.tensors(1).sample_shape(), testing::ElementsAre(4, 4, 1));
  EXPECT_EQ(d.tensors(1).device_transform().dtype(), DTYPE_FLOAT32);
  EXPECT_FLOAT_EQ(d.tensors(1).device_transform().scale(), 1.0f / 255);
  EXPECT_EQ(d.tensors(1).device_transform().mean(0), 0.5f);
  EXPECT_EQ(d.tensors(2).name(), "sample_index");
  EXPECT_EQ(d.tensors(2).dtype(), DTYPE_INT64);
  EXPECT_EQ(d.tensors(3).name(), "valid");
  EXPECT_EQ(d.tensors(3).dtype(), DTYPE_BOOL);
  EXPECT_EQ(d.steps_per_epoch(), 5u);
  EXPECT_EQ(d.samples_per_epoch(), 43u);
  EXPECT_EQ(d.dropped_per_epoch(), 3u);
  EXPECT_EQ(d.plan_hash().size(), 16u);
  EXPECT_EQ(d.fingerprint(),
            engine->catalog().at("images")->info().fingerprint());
  EXPECT_EQ(d.resolved_spec().spec_version(), 1u);
  // label 64, image 128, index 64, valid 8 -> 64 bytes.
  EXPECT_EQ(*pipeline->MaxPayloadBytes(1), 320u);
}

TEST_F(EngineTest, BuiltPipelinesAreFoundAgain) {
  auto engine = Make(1, {{"numbers", Numbers(100)}}, 64 << 20,
                     absl::Seconds(60), /*max_cached=*/3);
  const std::string text = "sources { dataset: 'numbers' } batch_size: ";
  const auto first = Open(*engine, text + "10");
  EXPECT_EQ(Open(*engine, text + "10"), first);
  EXPECT_EQ(*engine->Open(first->description().resolved_spec()), first);
  EXPECT_EQ(engine->stats().cached_pipelines, 1u);
  for (int batch = 1; batch <= 5; ++batch) {
    Open(*engine, text + std::to_string(batch));
  }
  EXPECT_EQ(engine->stats().cached_pipelines, 3u);
  // Thrown out, built again, the same plan; the old one still runs.
  const auto again = Open(*engine, text + "10");
  EXPECT_NE(again, first);
  EXPECT_EQ(again->description().plan_hash(), first->description().plan_hash());
  Arrivals arrivals;
  auto run =
      engine->Start(first, {0, 0, 10, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(arrivals.AwaitDone().ok());
}

TEST_F(EngineTest, RefusesWhatIsNotThere) {
  auto engine = Make(1, {{"numbers", Numbers(100)}});
  const auto pipeline =
      Open(*engine, "sources { dataset: 'numbers' } batch_size: 10");
  Arrivals arrivals;
  const auto start = [&](StepRange range) {
    return engine->Start(pipeline, range, arrivals.callbacks()).status();
  };
  EXPECT_EQ(start({0, 0, 0, 0, 1, false}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(start({0, 10, 1, 0, 1, false}).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(start({0, 5, 6, 0, 1, false}).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(start({0, 5, ~uint64_t{0}, 0, 1, false}).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(start({0, 0, 1, 2, 2, false}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(start({0, 0, 1, 0, 3, false}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(start({0, 0, 1, 0, 0, false}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine->Open(Spec("sources { dataset: 'x' } batch_size: 1"))
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  PipelineSpec huge = Spec("batch_size: 1");
  for (int i = 0; i < 20000; ++i) huge.add_sources()->set_dataset("numbers");
  EXPECT_EQ(engine->Open(huge).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Resolved it is sent with every call, which has no more room than Open has.
TEST_F(EngineTest, ASpecThatGrowsTooLargeIsRefusedWhenItIsOpened) {
  DatasetInfo info;
  for (int i = 0; i < 200; ++i) {
    Field& field = *info.mutable_schema()->add_fields();
    field.set_name(std::to_string(1000 + i) + std::string(400, 'x'));
    field.set_kind(FIELD_KIND_TENSOR);
    field.set_dtype(DTYPE_UINT8);
    field.add_shape(1);
  }
  auto engine =
      Make(1, {{"wide", storage::NewMemorySource(
                            info, {std::vector<std::string>(200, "x")})}});
  const absl::Status status =
      engine->Open(Spec("sources { dataset: 'wide' } batch_size: 1")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the maximum is 64 KiB"));
}

TEST_F(EngineTest, ABatchLargerThanTheBudgetIsRefusedWithTheArithmetic) {
  auto engine = Make(1, {{"numbers", Numbers(100000)}}, 1 << 20);
  const auto pipeline =
      Open(*engine, "sources { dataset: 'numbers' } batch_size: 65536");
  const absl::Status whole = pipeline->MaxPayloadBytes(1).status();
  // Another server may have room for it.
  EXPECT_EQ(whole.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(pipeline->MaxPayloadBytes(3).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(whole.message()),
              HasSubstr("65536 / world size 1 = 65,536 rows of 17 bytes"));
  EXPECT_THAT(std::string(whole.message()),
              HasSubstr("the memory budget of 1 MiB less "));
  EXPECT_TRUE(pipeline->MaxPayloadBytes(64).ok());
  Arrivals arrivals;
  EXPECT_EQ(
      engine->Start(pipeline, {0, 0, 1, 0, 1, false}, arrivals.callbacks())
          .status()
          .code(),
      absl::StatusCode::kFailedPrecondition);
}

TEST_F(EngineTest, WhatItHoldsIsNotForBatches) {
  ByteBudget budget(1 << 20);
  Engine::Options options;
  options.threads = 3;
  options.budget = &budget;
  options.budget_held_elsewhere_bytes = 200000;
  const auto engine =
      CreateEngine(options, {{"images", Images(10)}}, FakeStage::Create);
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_GT(budget.used(), 0u);
  EXPECT_EQ((*engine)->batch_budget_bytes(),
            budget.capacity() - budget.used() - 200000);
}

TEST_F(EngineTest, ABudgetTooSmallForTheThreadsIsRefused) {
  ByteBudget budget(4096);
  Engine::Options options;
  options.threads = 4;
  options.budget = &budget;
  const auto engine =
      CreateEngine(options, {{"images", Images(10)}}, FakeStage::Create);
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(engine.status().message()),
              HasSubstr("nothing for batches"));
  options.budget = nullptr;
  EXPECT_FALSE(options.Validate().ok());
}

// A consumer that keeps its batches: the steps that fit are delivered, the next
// one is refused with a delay, nothing is lost.
TEST_F(EngineTest, NoMemoryWithinTheTimeoutIsRefusedWithADelay) {
  auto engine =
      Make(2, {{"numbers", Numbers(1000)}}, 32 << 10, absl::Milliseconds(20));
  const auto pipeline =
      Open(*engine, "sources { dataset: 'numbers' } batch_size: 100");
  Arrivals arrivals;
  auto run =
      engine->Start(pipeline, {0, 0, 10, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok());
  const absl::Status status = arrivals.AwaitDone();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(" KiB of the server's memory budget of 32 KiB were "
                        "not free within 20ms"));
  EXPECT_GT(GetErrorDetail(status).retry_delay_ms(), 0);
  EXPECT_EQ(engine->stats().refused_admissions, 1u);
  auto batches = arrivals.TakeBatches();
  ASSERT_GE(batches.size(), 1u);
  ASSERT_LT(batches.size(), 10u);
  // The first ones, without a gap.
  EXPECT_EQ(batches.rbegin()->first + 1, batches.size());
  EXPECT_LE(budget_->peak(), budget_->capacity());
  const uint64_t next = batches.size();
  batches.clear();
  Arrivals rest;
  auto again =
      engine->Start(pipeline, {0, next, 1, 0, 1, false}, rest.callbacks());
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(rest.AwaitDone().ok());
}

TEST_F(EngineTest, WaitingGoesOnWhenMemoryComesBack) {
  auto engine =
      Make(2, {{"numbers", Numbers(1000)}}, 32 << 10, absl::ZeroDuration());
  const auto pipeline =
      Open(*engine, "sources { dataset: 'numbers' } batch_size: 100");
  Arrivals arrivals;
  auto run =
      engine->Start(pipeline, {0, 0, 10, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok());
  for (int i = 0; i < 10; ++i) arrivals.AwaitBatch();  // dropped at once
  EXPECT_TRUE(arrivals.AwaitDone().ok());
  run->reset();
  EXPECT_EQ(budget_->used(), idle_use_);
}

TEST_F(EngineTest, CancelGivesMemoryBack) {
  Gate gate;
  auto source = Gated(Numbers(1000), &gate);
  auto engine = Make(2, {{"numbers", source}}, 32 << 10, absl::ZeroDuration());
  const auto pipeline =
      Open(*engine, "sources { dataset: 'numbers' } batch_size: 100");
  Arrivals arrivals;
  auto run =
      engine->Start(pipeline, {0, 0, 10, 0, 1, false}, arrivals.callbacks());
  ASSERT_TRUE(run.ok());
  gate.AwaitWaiting(2);
  EXPECT_GT(budget_->used(), idle_use_);
  (*run)->Cancel();
  (*run)->Cancel();
  gate.Open();
  EXPECT_EQ(arrivals.AwaitDone().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(arrivals.TakeBatches().empty());
  EXPECT_EQ(budget_->used(), idle_use_);
  EXPECT_EQ(budget_->waiting(), 0u);
}

TEST_F(EngineTest, ADestroyedRunIsCancelled) {
  Gate gate;
  auto engine = Make(1, {{"numbers", Gated(Numbers(100), &gate)}});
  const auto pipeline =
      Open(*engine, "sources { dataset: 'numbers' } batch_size: 10");
  Arrivals arrivals;
  {
    auto run =
        engine->Start(pipeline, {0, 0, 10, 0, 1, false}, arrivals.callbacks());
    ASSERT_TRUE(run.ok());
    gate.AwaitWaiting(1);
  }
  gate.Open();
  EXPECT_EQ(arrivals.AwaitDone().code(), absl::StatusCode::kCancelled);
}

TEST_F(EngineTest, CancelledRunsEndWhileTheEngineIsDestroyed) {
  Gate gate;
  EndRunsWhileTheEngineIsDestroyed(
      Make(4, {{"numbers", Gated(Numbers(1000), &gate)}}), gate, 4);
}

// A long run does not hold up a short one that starts later.
TEST_F(EngineTest, RunsTakeTurns) {
  Gate gate;
  auto source = Gated(Numbers(1000), &gate);
  auto engine = Make(1, {{"numbers", source}});
  const auto pipeline =
      Open(*engine, "sources { dataset: 'numbers' } batch_size: 10");
  Mutex mu;
  std::string order;
  const auto note = [&](char c) {
    return Engine::Callbacks{[&mu, &order, c](batch::FilledBatch) {
                               MutexLock lock(mu);
                               order += c;
                             },
                             [](absl::Status) {}};
  };
  Arrivals done;
  Engine::Callbacks long_callbacks = note('a');
  long_callbacks.on_done = done.callbacks().on_done;
  auto long_run = engine->Start(pipeline, {0, 0, 100, 0, 1, false},
                                std::move(long_callbacks));
  gate.AwaitWaiting(1);
  auto short_run = engine->Start(pipeline, {1, 0, 3, 0, 1, false}, note('b'));
  gate.Open();
  EXPECT_TRUE(done.AwaitDone().ok());
  MutexLock lock(mu);
  EXPECT_EQ(order.size(), 103u);
  EXPECT_LT(order.rfind('b'), 10u) << order;
}

TEST_F(EngineTest, ManyRunsShareLittleMemory) {
  auto engine = Make(4, {{"numbers", Numbers(2000)}, {"images", Images(400)}},
                     128 << 10, absl::ZeroDuration());
  RunMany(*engine,
          {"sources { dataset: 'numbers' } batch_size: 100",
           std::string("sources { dataset: 'images' } batch_size: 20 ") +
               kImageTransforms});
}

TEST_F(EngineTest, CountsTheTimeOfItsStages) {
  auto engine = Make(1, {{"numbers", Numbers(100)}});
  RunAll(*engine, "sources { dataset: 'numbers' } batch_size: 10");
  const Engine::Stats stats = engine->stats();
  EXPECT_EQ(stats.threads, 1u);
  ASSERT_EQ(stats.stages.size(), 4u);
  EXPECT_EQ(stats.stages[0].stage(), "read");
  EXPECT_EQ(stats.stages[0].samples(), 100u);
  EXPECT_EQ(stats.stages[3].stage(), "batch");
  EXPECT_EQ(stats.stages[3].samples(), 100u);
}

}  // namespace
}  // namespace millrace::pipeline
