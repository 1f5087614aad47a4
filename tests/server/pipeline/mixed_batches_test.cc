// MixUp and CutMix over whole batches, and what the server computes in the
// device's place: the results follow from the spec alone, at every world size,
// on every number of threads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/dtype.h"
#include "proto/error_detail.h"
#include "proto/tensor_cast.h"
#include "tests/server/pipeline/engine_fixture.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The rows of a step over all ranks, tensor by tensor.
struct GlobalBatch {
  std::map<std::string, std::string> tensors;
  uint64_t rows = 0;
  uint64_t valid = 0;

  template <typename T>
  std::vector<T> Values(const std::string& name) const {
    const std::string& bytes = tensors.at(name);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  friend bool operator==(const GlobalBatch&, const GlobalBatch&) = default;
};

class MixedBatches : public ::testing::Test {
 protected:
  // A small schema of its own: "image" raw uint8 [5, 4, 3], "label" one of 7
  // classes, "other" int64.
  static std::shared_ptr<const storage::RecordSource> Pictures(
      int64_t samples, int64_t wrong_label_at = -1) {
    DatasetInfo info;
    auto add = [&](const char* name, DType dtype, std::vector<int64_t> shape) {
      Field& field = *info.mutable_schema()->add_fields();
      field.set_name(name);
      field.set_kind(FIELD_KIND_TENSOR);
      field.set_dtype(dtype);
      for (int64_t dim : shape) field.add_shape(dim);
      return &field;
    };
    add("image", DTYPE_UINT8, {5, 4, 3});
    add("label", DTYPE_INT64, {})->set_num_classes(7);
    add("other", DTYPE_INT64, {});
    std::vector<std::vector<std::string>> all;
    std::mt19937 random(1);
    for (int64_t i = 0; i < samples; ++i) {
      std::string pixels(60, '\0');
      for (char& c : pixels) c = static_cast<char>(random());
      all.push_back({pixels, Int64Bytes(i == wrong_label_at ? 7 : i % 7),
                     Int64Bytes(1000 + i)});
    }
    return storage::NewMemorySource(info, std::move(all));
  }

  absl::StatusOr<std::map<uint64_t, GlobalBatch>> TryRun(
      std::shared_ptr<const storage::RecordSource> source,
      const std::string& spec, uint32_t world, uint32_t threads) {
    ByteBudget budget(64 << 20);
    auto engine = CreateEngine({.threads = threads, .budget = &budget},
                               {{"set", std::move(source)}}, FakeStage::Create);
    EXPECT_TRUE(engine.ok()) << engine.status();
    auto pipeline =
        (*engine)->Open(Spec("sources { dataset: \"set\" } " + spec));
    if (!pipeline.ok()) return pipeline.status();
    opened_ = (*pipeline)->description();
    std::map<uint64_t, GlobalBatch> steps;
    for (uint32_t rank = 0; rank < world; ++rank) {
      Arrivals arrivals;
      auto run = (*engine)->Start(*pipeline,
                                  {.epoch = 3,
                                   .step_count = opened_.steps_per_epoch(),
                                   .rank = rank,
                                   .world_size = world},
                                  arrivals.callbacks());
      if (!run.ok()) return run.status();
      if (absl::Status s = arrivals.AwaitDone(); !s.ok()) return s;
      for (auto& [step, batch] : arrivals.TakeBatches()) {
        GlobalBatch& global = steps[step];
        global.rows += batch.header.rows();
        global.valid += batch.header.local_valid();
        for (const TensorHeader& tensor : batch.header.tensors()) {
          global.tensors[tensor.name()].append(
              reinterpret_cast<const char*>(batch.payload->data()) +
                  tensor.offset(),
              tensor.bytes());
        }
      }
    }
    EXPECT_EQ(steps.size(), opened_.steps_per_epoch());
    return steps;
  }

  std::map<uint64_t, GlobalBatch> Run(
      std::shared_ptr<const storage::RecordSource> source,
      const std::string& spec, uint32_t world = 1, uint32_t threads = 2) {
    auto steps = TryRun(std::move(source), spec, world, threads);
    EXPECT_TRUE(steps.ok()) << steps.status();
    return steps.ok() ? *steps : std::map<uint64_t, GlobalBatch>();
  }

  OpenResponse opened_;  // of the last run
};

TEST_F(MixedBatches, MixUpIsTheFormulaForImagesAndLabels) {
  const auto source = Pictures(41);
  const auto plain = Run(source, "batch_size: 8 seed: 5");
  const auto mixed =
      Run(source, "batch_size: 8 seed: 5 transforms { mix_up { alpha: 0.8 } }");
  ASSERT_EQ(mixed.size(), 5u);
  EXPECT_EQ(opened_.tensors(1).dtype(), DTYPE_FLOAT32);
  EXPECT_THAT(opened_.tensors(1).sample_shape(), ElementsAre(7));
  EXPECT_EQ(opened_.tensors(1).num_classes(), 7);
  std::vector<uint32_t> shares;
  for (const auto& [step, batch] : mixed) {
    const auto x = plain.at(step).Values<uint8_t>("image");
    const auto y = batch.Values<uint8_t>("image");
    const auto soft = batch.Values<float>("label");
    const auto other = plain.at(step).Values<int64_t>("other");
    EXPECT_EQ(batch.Values<int64_t>("other"), other);
    // Any pair of different classes tells the share.
    uint32_t share = 70000;
    for (int row = 0; row < 8; ++row) {
      const int64_t own = (other[row] - 1000) % 7;
      const int64_t partner = (other[row ^ 1] - 1000) % 7;
      if (own == partner) continue;
      share = static_cast<uint32_t>(soft[row * 7 + own] * 65536);
    }
    ASSERT_LE(share, 65536u);
    shares.push_back(share);
    for (int row = 0; row < 8; ++row) {
      for (int c = 0; c < 7; ++c) {
        float weight = 0;
        if ((other[row] - 1000) % 7 == c) weight += share / 65536.0f;
        if ((other[row ^ 1] - 1000) % 7 == c) weight += 1 - share / 65536.0f;
        ASSERT_EQ(soft[row * 7 + c], weight);
      }
      for (int i = 0; i < 60; ++i) {
        const uint32_t sum =
            share * x[row * 60 + i] + (65536 - share) * x[(row ^ 1) * 60 + i];
        ASSERT_EQ(y[row * 60 + i], (sum + 32768) >> 16);
      }
    }
  }
  std::sort(shares.begin(), shares.end());
  EXPECT_EQ(std::unique(shares.begin(), shares.end()), shares.end())
      << "a share for each step";
}

TEST_F(MixedBatches, CutMixGivesLabelsTheShareOfTheArea) {
  const auto source = Pictures(64);
  const auto plain = Run(source, "batch_size: 8 seed: 6");
  const auto mixed =
      Run(source, "batch_size: 8 seed: 6 transforms { cut_mix {} }");
  int changed = 0;
  for (const auto& [step, batch] : mixed) {
    const auto x = plain.at(step).Values<uint8_t>("image");
    const auto y = batch.Values<uint8_t>("image");
    const auto soft = batch.Values<float>("label");
    const auto other = plain.at(step).Values<int64_t>("other");
    for (int row = 0; row < 8; ++row) {
      int from_partner = 0;
      for (int pixel = 0; pixel < 20; ++pixel) {
        const size_t at = row * 60 + pixel * 3;
        const size_t partner = (row ^ 1) * 60 + pixel * 3;
        if (std::memcmp(&y[at], &x[partner], 3) == 0) {
          ++from_partner;
        } else {
          ASSERT_EQ(std::memcmp(&y[at], &x[at], 3), 0);
        }
      }
      const int64_t own = (other[row] - 1000) % 7;
      const int64_t partner = (other[row ^ 1] - 1000) % 7;
      changed += from_partner > 0;
      if (own == partner) continue;
      EXPECT_EQ(soft[row * 7 + partner], from_partner / 20.0f);
      EXPECT_EQ(soft[row * 7 + own], (20 - from_partner) / 20.0f);
    }
  }
  EXPECT_GT(changed, 16);
}

TEST_F(MixedBatches, TakesOneOfSeveralForABatch) {
  const auto source = Pictures(400);
  const auto plain = Run(source, "batch_size: 4");
  const auto mixed = Run(source,
                         "batch_size: 4 transforms { mix_up { p: 0.5 } } "
                         "transforms { cut_mix { p: 0.5 } }");
  int counts[3] = {};
  for (const auto& [step, batch] : mixed) {
    const auto x = plain.at(step).Values<uint8_t>("image");
    const auto y = batch.Values<uint8_t>("image");
    bool same = true;
    bool cut = true;
    for (int pixel = 0; pixel < 80; ++pixel) {
      const size_t at = pixel * 3;
      const size_t partner = (pixel / 20 ^ 1) * 60 + pixel % 20 * 3;
      same &= std::memcmp(&y[at], &x[at], 3) == 0;
      cut &= std::memcmp(&y[at], &x[at], 3) == 0 ||
             std::memcmp(&y[at], &x[partner], 3) == 0;
    }
    ++counts[same ? 0 : cut ? 2 : 1];
  }
  // 100 batches: 50 mixed up, 25 cut (a few of them of nothing), 25 alone.
  EXPECT_NEAR(counts[1], 50, 20);
  EXPECT_NEAR(counts[2], 25, 17);
  EXPECT_NEAR(counts[0], 25, 17);
  // Labels are soft also where nothing was mixed.
  for (const auto& [step, batch] : mixed) {
    float sum = 0;
    for (float share : batch.Values<float>("label")) sum += share;
    EXPECT_NEAR(sum, 4, 1e-5);
  }
}

TEST_F(MixedBatches, LeavesALastOneWithoutPartnerAlone) {
  const auto source = Pictures(10);
  // 7 and then 3: both odd. The pairs of the second step begin at position 7.
  const std::string spec = "batch_size: 7 last_batch: LAST_BATCH_PARTIAL ";
  const auto plain = Run(source, spec);
  const auto mixed = Run(source, spec + "transforms { mix_up {} }");
  for (uint64_t step : {0, 1}) {
    const uint64_t last = step == 0 ? 6 : 2;
    const auto x = plain.at(step).Values<uint8_t>("image");
    const auto y = mixed.at(step).Values<uint8_t>("image");
    ASSERT_EQ(mixed.at(step).rows, last + 1);
    EXPECT_EQ(std::memcmp(&x[last * 60], &y[last * 60], 60), 0);
    for (uint64_t row = 0; row < last; ++row) {
      EXPECT_NE(std::memcmp(&x[row * 60], &y[row * 60], 60), 0);
    }
  }
}

TEST_F(MixedBatches, LeavesThePartnerOfAnEmptyRowAlone) {
  // Sample 4 is damaged and stays empty; the last step has 3 rows of padding.
  const std::string spec =
      "batch_size: 4 seed: 2 last_batch: LAST_BATCH_PAD "
      "bad_samples { action: ZERO } transforms { decode_image { color: GRAY } }"
      " transforms { center_crop { height: 4 width: 4 } } ";
  const auto plain = Run(Images(9, {4}), spec);
  const auto mixed = Run(Images(9, {4}), spec + "transforms { mix_up {} }");
  int lonely = 0;
  for (const auto& [step, batch] : mixed) {
    const auto valid = batch.Values<uint8_t>("valid");
    const auto index = batch.Values<int64_t>("sample_index");
    const auto soft = batch.Values<float>("label");
    for (int row = 0; row < 4; ++row) {
      const std::string a =
          plain.at(step).tensors.at("image").substr(row * 16, 16);
      const std::string b = batch.tensors.at("image").substr(row * 16, 16);
      float sum = 0;
      for (int c = 0; c < 10; ++c) sum += soft[row * 10 + c];
      if (valid[row] == 0) {
        EXPECT_EQ(b, std::string(16, '\0'));
        EXPECT_EQ(sum, 0);
      } else {
        EXPECT_EQ(a == b, valid[row ^ 1] == 0);
        EXPECT_EQ(sum, 1);
        if (valid[row ^ 1] == 0) {
          ++lonely;
          EXPECT_EQ(soft[row * 10 + index[row] % 10], 1);
        }
      }
    }
  }
  EXPECT_EQ(lonely, 2);
}

TEST_F(MixedBatches, RefusesALabelThatIsNoClass) {
  const std::string spec = "batch_size: 4 transforms { mix_up {} }";
  const absl::Status status =
      TryRun(Pictures(8, /*wrong_label_at=*/5), spec, 1, 1).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(GetErrorDetail(status).sample(), 5);
}

TEST_F(MixedBatches, NeedsImagesOfOneSizeToCut) {
  DatasetInfo info;
  for (const char* name : {"image", "depth"}) {
    Field& field = *info.mutable_schema()->add_fields();
    field.set_name(name);
    field.set_kind(FIELD_KIND_TENSOR);
    field.set_dtype(DTYPE_UINT8);
    for (int64_t dim : {4, *name == 'd' ? 3 : 4, 1}) field.add_shape(dim);
  }
  Field& label = *info.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(3);
  const auto source = storage::NewMemorySource(
      info, {{std::string(16, 'a'), std::string(12, 'b'), Int64Bytes(1)},
             {std::string(16, 'c'), std::string(12, 'd'), Int64Bytes(2)}});
  const std::string cut =
      "batch_size: 2 transforms { cut_mix { fields: \"image\" fields: "
      "\"depth\" } }";
  const absl::Status status = TryRun(source, cut, 1, 1).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("depth is 4 x 3"));
  // Mixing them is no question of size.
  const auto mixed =
      Run(source,
          "batch_size: 2 transforms { mix_up { fields: \"image\" fields: "
          "\"depth\" } }");
  EXPECT_NE(mixed.at(0).tensors.at("depth")[0], 'b');
}

// Any spec, any share of ranks and threads: one global batch.
TEST_F(MixedBatches, AreTheSameAtEveryWorldSizeAndNumberOfThreads) {
  std::mt19937 random(7);
  auto pick = [&random](auto... choices) {
    const std::vector<std::string> all = {choices...};
    return all[random() % all.size()];
  };
  for (int round = 0; round < 60; ++round) {
    const uint64_t batch = 8 * (1 + random() % 3);
    const bool encoded = random() % 2 == 0;
    std::string spec = absl::StrCat(
        "batch_size: ", batch, " seed: ", random() % 1000, " last_batch: ",
        pick("LAST_BATCH_DROP", "LAST_BATCH_PAD", "LAST_BATCH_PARTIAL"),
        " shuffle { mode: ", pick("GLOBAL", "SEQUENTIAL"), " } ");
    if (encoded) {
      absl::StrAppend(
          &spec, "bad_samples { action: ", pick("ZERO", "SUBSTITUTE"), " } ",
          "transforms { decode_image { color: GRAY } } ",
          "transforms { random_resized_crop { height: 4 width: 4 } } ");
    }
    absl::StrAppend(
        &spec,
        pick("transforms { mix_up {} } ", "transforms { cut_mix {} } ",
             "transforms { mix_up { p: 0.5 } } transforms { cut_mix {} } "));
    if (random() % 2 == 0) {
      absl::StrAppend(
          &spec, "transforms { normalize { placement: ",
          pick("PLACEMENT_CLIENT", "PLACEMENT_SERVER"),
          encoded ? " mean: 0.4 stddev: 0.2 } } "
                  : " mean: [0.4, 0.5, 0.6] stddev: [0.2, 0.3, 0.4] } } ");
    }
    SCOPED_TRACE(spec);
    const int64_t samples = 40 + static_cast<int64_t>(random() % 40);
    std::vector<int64_t> bad;
    for (int64_t i = 0; i < samples; ++i) {
      if (random() % 8 == 0) bad.push_back(i);
    }
    const auto source = encoded ? Images(samples, bad) : Pictures(samples);
    const auto expected = Run(source, spec, 1, 1);
    for (uint32_t world : {1, 2, 4, 8}) {
      for (uint32_t threads : {1, 4}) {
        EXPECT_EQ(Run(source, spec, world, threads), expected)
            << "world " << world << ", threads " << threads;
      }
    }
  }
}

// A rank of one row: every partner belongs to another.
TEST_F(MixedBatches, AreTheSameWhenEveryPartnerIsAnothers) {
  const auto source = Pictures(30);
  for (const char* mixer : {"mix_up", "cut_mix"}) {
    const std::string spec =
        absl::StrCat("batch_size: 6 transforms { ", mixer, " {} }");
    const auto expected = Run(source, spec);
    EXPECT_EQ(Run(source, spec, 6), expected);
    EXPECT_EQ(Run(source, spec, 2), expected);  // slices of 3: odd
    EXPECT_EQ(Run(source, spec, 3), expected);
  }
}

// What the wire carries, computed by the server, and what the client would
// have computed from it, by the loop that both use.
TEST_F(MixedBatches, ServerAndClientComputeTheSame) {
  const auto source = Images(10, {3});
  const std::string head =
      "batch_size: 4 seed: 9 last_batch: LAST_BATCH_PAD "
      "bad_samples { action: ZERO } transforms { decode_image { color: GRAY } }"
      " transforms { random_resized_crop { height: 4 width: 4 } } ";
  for (const std::string mix : {"", "transforms { mix_up {} } "}) {
    for (const std::string layout : {"AS_STORED", "NHWC", "NCHW"}) {
      for (const std::string steps :
           {"transforms { normalize { mean: 0.4 stddev: 0.2 PLACE } } ",
            "transforms { normalize { mean: 0.4 stddev: 0.2 PLACE } } "
            "transforms { to_dtype { dtype: DTYPE_FLOAT16 PLACE } } ",
            "transforms { to_dtype { dtype: DTYPE_BFLOAT16 scale: true PLACE } "
            "} ",
            "transforms { to_dtype { dtype: DTYPE_INT32 PLACE } } "}) {
        auto spec = [&](const char* place) {
          const std::string text = absl::StrReplaceAll(
              steps, {{"PLACE", absl::StrCat("placement: ", place)}});
          return absl::StrCat(head, mix, text,
                              "outputs { field: \"image\" layout: ", layout,
                              " }");
        };
        const std::string here = spec("PLACEMENT_SERVER");
        SCOPED_TRACE(here);
        const auto on_server = Run(source, here);
        const OpenResponse server_plan = opened_;
        EXPECT_FALSE(server_plan.tensors(0).has_device_transform());
        const auto for_client = Run(source, spec("PLACEMENT_CLIENT"));
        const TensorSpec& tensor = opened_.tensors(0);
        ASSERT_TRUE(tensor.has_device_transform());
        EXPECT_EQ(tensor.dtype(), DTYPE_UINT8);
        EXPECT_EQ(tensor.view(), server_plan.tensors(0).view());
        EXPECT_EQ(tensor.device_transform().dtype(),
                  server_plan.tensors(0).dtype());
        auto cast = TensorCast::Make(tensor);
        ASSERT_TRUE(cast.ok()) << cast.status();
        for (const auto& [step, batch] : for_client) {
          const std::string& wire = batch.tensors.at("image");
          std::string computed(wire.size() * ElementBytes(cast->target()),
                               '\0');
          ASSERT_TRUE(cast->Apply(reinterpret_cast<const uint8_t*>(wire.data()),
                                  reinterpret_cast<uint8_t*>(computed.data()),
                                  wire.size()));
          EXPECT_EQ(on_server.at(step).tensors.at("image"), computed);
        }
      }
    }
  }
}

TEST_F(MixedBatches, SayInWhichLayoutImagesTravelAndAreShown) {
  const auto source = Pictures(8);
  auto image = [&](const std::string& rest) {
    Run(source, "batch_size: 4 " + rest);
    return opened_.tensors(0);
  };
  const std::string normalize =
      "transforms { normalize { mean: [0, 0, 0] stddev: [1, 1, 1] } } ";
  TensorSpec tensor = image("outputs { field: \"image\" }");
  EXPECT_THAT(tensor.sample_shape(), ElementsAre(5, 4, 3));
  EXPECT_EQ(tensor.view(), TensorSpec::VIEW_AS_STORED);
  tensor = image(normalize + "outputs { field: \"image\" }");
  EXPECT_THAT(tensor.sample_shape(), ElementsAre(5, 4, 3));
  EXPECT_EQ(tensor.view(), TensorSpec::VIEW_CHANNELS_FIRST);
  tensor = image(normalize + "outputs { field: \"image\" layout: NHWC }");
  EXPECT_THAT(tensor.sample_shape(), ElementsAre(5, 4, 3));
  EXPECT_EQ(tensor.view(), TensorSpec::VIEW_AS_STORED);
  tensor = image(normalize + "outputs { field: \"image\" layout: NCHW }");
  EXPECT_THAT(tensor.sample_shape(), ElementsAre(3, 5, 4));
  EXPECT_EQ(tensor.view(), TensorSpec::VIEW_AS_STORED);
  EXPECT_TRUE(tensor.device_transform().channels_first());

  const auto stored = Run(source, "batch_size: 4 outputs { field: \"image\" }");
  const auto planes =
      Run(source, "batch_size: 4 outputs { field: \"image\" layout: NCHW }");
  const auto x = stored.at(0).Values<uint8_t>("image");
  const auto y = planes.at(0).Values<uint8_t>("image");
  for (int row = 0; row < 4; ++row) {
    for (int pixel = 0; pixel < 20; ++pixel) {
      for (int c = 0; c < 3; ++c) {
        ASSERT_EQ(y[row * 60 + c * 20 + pixel], x[row * 60 + pixel * 3 + c]);
      }
    }
  }
}

TEST_F(MixedBatches, CountWhatTheirThreadsNeedBesideTheBatch) {
  // 40 rows take 2432 + 320 + 64 bytes and 4096 for themselves, which is just
  // below what the budget has less 1/16 and 2/64; partners another 2 x 64 a
  // thread.
  ByteBudget budget(7640);
  auto engine = CreateEngine({.threads = 2, .budget = &budget},
                             {{"set", Pictures(40)}}, FakeStage::Create);
  ASSERT_TRUE(engine.ok()) << engine.status();
  auto payload = [&](const std::string& rest) {
    auto pipeline =
        (*engine)->Open(Spec("sources { dataset: \"set\" } batch_size: 40 "
                             "outputs { field: \"image\" } " +
                             rest));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return (*pipeline)->MaxPayloadBytes(1);
  };
  const auto plain = payload("");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(*plain, 2432u + 320 + 64);
  const absl::Status mixed = payload("transforms { mix_up {} }").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(mixed)) << mixed;
  EXPECT_THAT(std::string(mixed.message()),
              HasSubstr("2 threads need 128 B each"));
}

}  // namespace
}  // namespace millrace::pipeline
