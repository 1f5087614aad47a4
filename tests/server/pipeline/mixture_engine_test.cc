// Batches of several sources: the bytes of each, in the order of the plan.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/error_detail.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/row/explain.h"
#include "tests/server/pipeline/engine_fixture.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The same two fields as Numbers(), in another order and with one more, so that
// nothing is found by its place.
std::shared_ptr<const storage::RecordSource> OtherNumbers(int64_t samples) {
  DatasetInfo info;
  const auto add = [&info](const char* name, DType dtype) -> Field& {
    Field& field = *info.mutable_schema()->add_fields();
    field.set_name(name);
    field.set_kind(FIELD_KIND_TENSOR);
    field.set_dtype(dtype);
    return field;
  };
  add("more", DTYPE_FLOAT32);
  add("label", DTYPE_INT64).set_num_classes(10);
  add("x", DTYPE_UINT8).add_shape(6);
  std::vector<std::vector<std::string>> all;
  for (int64_t i = 0; i < samples; ++i) {
    all.push_back({"four", Int64Bytes((i + 3) % 10),
                   absl::StrCat("oth", Int64Bytes(i).substr(0, 3))});
  }
  return storage::NewMemorySource(info, std::move(all));
}

class MixtureEngine : public testing::Test {
 protected:
  std::unique_ptr<Engine> Make(uint32_t threads, DatasetCatalog catalog) {
    budget_ = std::make_unique<ByteBudget>(64 << 20);
    Engine::Options options;
    options.threads = threads;
    options.budget = budget_.get();
    options.admission_timeout = absl::Seconds(60);
    auto engine = CreateEngine(options, std::move(catalog), FakeStage::Create);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  // All batches of an epoch; `status` takes how it ended.
  std::map<uint64_t, batch::FilledBatch> RunAll(
      Engine& engine, const std::string& text, StepRange range = {},
      absl::Status* status = nullptr) {
    auto pipeline = engine.Open(Spec(text));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    range.step_count = (*pipeline)->description().steps_per_epoch();
    Arrivals arrivals;
    auto run = engine.Start(*pipeline, range, arrivals.callbacks());
    EXPECT_TRUE(run.ok()) << run.status();
    const absl::Status ended = arrivals.AwaitDone();
    if (status != nullptr) {
      *status = ended;
    } else {
      EXPECT_TRUE(ended.ok()) << ended;
    }
    return arrivals.TakeBatches();
  }

  std::unique_ptr<ByteBudget> budget_;
};

constexpr char kTwo[] =
    "sources { dataset: 'numbers' weight: 3 } "
    "sources { dataset: 'other' weight: 1 } "
    "outputs { field: 'x' } outputs { field: 'label' } ";

TEST_F(MixtureEngine, EveryRowHoldsItsSampleOfItsSource) {
  auto engine =
      Make(4, {{"numbers", Numbers(300)}, {"other", OtherNumbers(70)}});
  std::map<int32_t, std::multiset<int64_t>> seen;
  for (uint64_t epoch : {0, 1}) {
    StepRange range;
    range.epoch = epoch;
    const auto batches =
        RunAll(*engine, absl::StrCat(kTwo, "batch_size: 10 seed: 5"), range);
    ASSERT_EQ(batches.size(), 37u);
    for (const auto& [step, batch] : batches) {
      const auto x = TensorValues<uint8_t>(batch, "x");
      const auto label = TensorValues<int16_t>(batch, "label");
      const auto source = TensorValues<int32_t>(batch, "source_index");
      const auto index = TensorValues<int64_t>(batch, "sample_index");
      for (int row = 0; row < 10; ++row) {
        seen[source[row]].insert(index[row]);
        const std::string wanted =
            source[row] == 0
                ? Int64Bytes(index[row]).substr(0, 3) +
                      Int64Bytes(index[row] * index[row]).substr(0, 3)
                : "oth" + Int64Bytes(index[row]).substr(0, 3);
        ASSERT_EQ(std::memcmp(&x[row * 6], wanted.data(), 6), 0);
        EXPECT_EQ(label[row], (index[row] + (source[row] == 0 ? 0 : 3)) % 10);
      }
    }
  }
  // Of 370 rows an epoch: 277.5 and 92.5, the first of equal remainders up.
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].size(), 2 * 278u);
  EXPECT_EQ(seen[1].size(), 2 * 92u);
  // Walk by walk: 556 of 300 are each sample once or twice, 184 of 70 twice or
  // three times.
  for (int64_t i = 0; i < 300; ++i) {
    EXPECT_GE(seen[0].count(i), 1u);
    EXPECT_LE(seen[0].count(i), 2u);
  }
  for (int64_t i = 0; i < 70; ++i) {
    EXPECT_GE(seen[1].count(i), 2u);
    EXPECT_LE(seen[1].count(i), 3u);
  }
}

TEST_F(MixtureEngine, ThreadsAndRanksDoNotMatter) {
  const DatasetCatalog catalog = {{"a", Images(83, {5, 60, 61})},
                                  {"b", Images(40, {7})}};
  const std::string sources =
      "sources { dataset: 'a' weight: 2 } sources { dataset: 'b' } ";
  const std::string concatenated =
      "sources { dataset: 'a' } sources { dataset: 'b' } concatenate: true ";
  for (const std::string& text :
       {absl::StrCat(sources, "bad_samples { action: SUBSTITUTE } "),
        absl::StrCat(sources, "bad_samples { action: ZERO } ",
                     "last_batch: LAST_BATCH_PAD "),
        absl::StrCat(concatenated, "bad_samples { action: SUBSTITUTE } ",
                     "last_batch: LAST_BATCH_PARTIAL ")}) {
    for (const char* mix : {"", "transforms { mix_up {} } "}) {
      const std::string spec =
          absl::StrCat(text, "batch_size: 12 seed: 3 ",
                       "transforms { decode_image { color: GRAY } } "
                       "transforms { center_crop { height: 4 width: 4 } } ",
                       mix);
      std::map<std::string, std::map<uint64_t, std::string>> wanted;
      for (uint32_t world : {1, 2, 4}) {
        auto engine = Make(world == 1 ? 1 : 5, catalog);
        std::map<std::string, std::map<uint64_t, std::string>> came;
        for (uint32_t rank = 0; rank < world; ++rank) {
          StepRange range;
          range.epoch = 4;
          range.rank = rank;
          range.world_size = world;
          for (const auto& [step, batch] : RunAll(*engine, spec, range)) {
            for (const TensorHeader& tensor : batch.header.tensors()) {
              for (uint8_t byte : TensorValues<uint8_t>(batch, tensor.name())) {
                came[tensor.name()][step].push_back(static_cast<char>(byte));
              }
            }
          }
        }
        if (world == 1) wanted = came;
        ASSERT_EQ(wanted.size(), 5u);
        EXPECT_EQ(came, wanted) << spec << " world " << world;
      }
    }
  }
}

TEST_F(MixtureEngine, PaddingHasNoSourceAndEmptyRowsHaveOne) {
  auto engine = Make(2, {{"a", Images(9, {4})}, {"b", Images(5)}});
  const auto batches = RunAll(
      *engine, absl::StrCat("sources { dataset: 'a' } sources { dataset: 'b' } "
                            "concatenate: true batch_size: 4 "
                            "shuffle { mode: SEQUENTIAL } "
                            "last_batch: LAST_BATCH_PAD "
                            "bad_samples { action: ZERO } ",
                            kImageTransforms));
  ASSERT_EQ(batches.size(), 4u);
  EXPECT_THAT(TensorValues<int32_t>(batches.at(1), "source_index"),
              ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(TensorValues<uint8_t>(batches.at(1), "valid"),
              ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(TensorValues<int32_t>(batches.at(2), "source_index"),
              ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(TensorValues<int64_t>(batches.at(2), "sample_index"),
              ElementsAre(8, 0, 1, 2));
  EXPECT_THAT(TensorValues<int32_t>(batches.at(3), "source_index"),
              ElementsAre(1, 1, -1, -1));
  EXPECT_THAT(TensorValues<int64_t>(batches.at(3), "sample_index"),
              ElementsAre(3, 4, -1, -1));
}

TEST_F(MixtureEngine, ErrorsNameTheDatasetOfTheSample) {
  auto engine = Make(2, {{"a", Images(40)}, {"b", Images(40, {13})}});
  absl::Status status;
  RunAll(*engine,
         absl::StrCat("sources { dataset: 'a' } sources { dataset: 'b' } "
                      "concatenate: true batch_size: 8 ",
                      kImageTransforms),
         {}, &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  const ErrorDetail detail = GetErrorDetail(status);
  EXPECT_EQ(detail.dataset(), "b");
  EXPECT_EQ(detail.shard(), "part-1");
  EXPECT_EQ(detail.sample(), 13);
}

TEST_F(MixtureEngine, OpenDescribesTheSources) {
  auto engine =
      Make(1, {{"numbers", Numbers(300)}, {"other", OtherNumbers(70)}});
  const auto pipeline = engine->Open(
      Spec(absl::StrCat(kTwo, "batch_size: 10 epoch_samples: 205")));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const OpenResponse& d = (*pipeline)->description();
  ASSERT_EQ(d.tensors_size(), 5);
  EXPECT_EQ(d.tensors(2).name(), "source_index");
  EXPECT_EQ(d.tensors(2).dtype(), DTYPE_INT32);
  EXPECT_EQ(d.tensors(3).name(), "sample_index");
  EXPECT_EQ(d.tensors(4).name(), "valid");
  EXPECT_EQ(d.samples_per_epoch(), 200u);
  EXPECT_EQ(d.dropped_per_epoch(), 0u);
  ASSERT_EQ(d.sources_size(), 2);
  EXPECT_EQ(d.sources(0).dataset(), "numbers");
  EXPECT_EQ(d.sources(0).samples(), 300u);
  EXPECT_EQ(d.sources(0).samples_per_epoch(), 150u);
  EXPECT_EQ(d.sources(0).slots(), 768u);
  EXPECT_EQ(d.sources(1).samples_per_epoch(), 50u);
  EXPECT_EQ(d.sources(1).fingerprint(),
            engine->catalog().at("other")->info().fingerprint());
  const auto plain =
      engine->Open(Spec("sources { dataset: 'numbers' } batch_size: 10"));
  EXPECT_EQ((*plain)->description().sources_size(), 0);

  // What one lacks is refused with its name.
  const absl::Status refused =
      engine
          ->Open(Spec("sources { dataset: 'other' } sources { dataset: "
                      "'numbers' } batch_size: 10 outputs { field: 'more' }"))
          .status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(GetErrorDetail(refused).dataset(), "numbers");
}

// What `preview --explain` says of a batch of a mixture.
class SourceLines final : public augment::ParameterLog {
 public:
  void BeginSource(uint32_t source) override { source_ = source; }
  void BeginSample(int64_t index, uint64_t) override {
    samples.emplace_back(source_, index);
  }
  void Add(uint32_t, std::string) override {}
  std::vector<std::pair<int32_t, int64_t>> samples;

 private:
  uint32_t source_ = 99;
};

TEST_F(MixtureEngine, IsExplainedAsItIsMade) {
  auto engine =
      Make(1, {{"numbers", Numbers(300)}, {"other", OtherNumbers(70)}});
  const std::string text = absl::StrCat(kTwo, "batch_size: 10 seed: 5");
  const auto batches = RunAll(*engine, text);
  const auto pipeline = engine->Open(Spec(text));
  SourceLines lines;
  const auto payload = ExplainBatch(**pipeline, 0, 7, lines);
  ASSERT_TRUE(payload.ok()) << payload.status();
  const batch::FilledBatch& batch = batches.at(7);
  EXPECT_EQ(*payload, PayloadText(batch));
  const auto source = TensorValues<int32_t>(batch, "source_index");
  const auto index = TensorValues<int64_t>(batch, "sample_index");
  ASSERT_EQ(lines.samples.size(), 10u);
  for (int row = 0; row < 10; ++row) {
    EXPECT_EQ(lines.samples[row], (std::pair{source[row], index[row]}));
  }
}

}  // namespace
}  // namespace millrace::pipeline
