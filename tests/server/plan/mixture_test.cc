// Plans over several sources, and over one with epochs of another length.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "proto/error_detail.h"
#include "proto/spec_text.h"
#include "server/plan/plan.h"
#include "server/plan/resolve.h"

namespace millrace::plan {
namespace {

DatasetInfo Info(const std::string& name, int64_t samples) {
  DatasetInfo info;
  info.set_name(name);
  info.set_samples(samples);
  info.set_fingerprint("of " + name);
  Field* field = info.mutable_schema()->add_fields();
  field->set_name("x");
  field->set_kind(FIELD_KIND_TENSOR);
  field->set_dtype(DTYPE_INT64);
  return info;
}

// Datasets a, b and c; plans over specs of them.
class Mixture : public testing::Test {
 protected:
  Mixture() { Register({Info("a", 1000), Info("b", 37), Info("c", 300)}); }

  void Register(std::vector<DatasetInfo> infos) {
    infos_ = std::move(infos);
    by_name_.clear();
    for (const DatasetInfo& info : infos_) by_name_[info.name()] = &info;
  }

  absl::StatusOr<Plan> TryPlan(const std::string& text) {
    auto spec = ParseSpecText(text, "test");
    EXPECT_TRUE(spec.ok()) << spec.status();
    const auto resolved = ResolveSpec(*spec, by_name_);
    if (!resolved.ok()) return resolved.status();
    // Resolving what is resolved changes nothing.
    const auto again = ResolveSpec(*resolved, by_name_);
    EXPECT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->SerializeAsString(), resolved->SerializeAsString());
    std::vector<const DatasetInfo*> infos;
    for (const Source& source : resolved->sources()) {
      infos.push_back(by_name_.at(source.dataset()));
    }
    return Plan::Create(*resolved, infos);
  }

  Plan MakePlan(const std::string& text) {
    auto plan = TryPlan(text);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }

  std::vector<DatasetInfo> infos_;
  DatasetInfos by_name_;
};

constexpr char kThree[] =
    "sources { dataset: 'a' weight: 5 } sources { dataset: 'b' weight: 2 } "
    "sources { dataset: 'c' weight: 3 } ";

using Row = std::tuple<uint32_t, int64_t, uint64_t>;  // source, index, key

std::vector<Row> RowsOf(const Plan& plan, uint64_t epoch, uint64_t step,
                        uint32_t world) {
  std::vector<Row> rows;
  const Plan::Epoch e = plan.ForEpoch(epoch);
  for (uint32_t rank = 0; rank < world; ++rank) {
    const auto slice = plan.steps().Rows(step, rank, world);
    EXPECT_TRUE(slice.ok()) << slice.status();
    for (uint64_t i = 0; i < slice->rows; ++i) {
      const SampleRef ref = e.At(slice->first + i);
      EXPECT_EQ(ref.position, slice->first + i);
      EXPECT_EQ(ref.valid, i < slice->valid);
      rows.emplace_back(ref.source, ref.index, ref.key);
    }
  }
  return rows;
}

// Part of the content revision: another order is another revision.
TEST_F(Mixture, IsTheSameForEver) {
  const Plan plan = MakePlan(std::string(kThree) + "batch_size: 10 seed: 3");
  std::vector<std::pair<uint32_t, int64_t>> first;
  const Plan::Epoch epoch = plan.ForEpoch(1);
  for (uint64_t p = 0; p < 8; ++p) {
    const SampleRef ref = epoch.At(p);
    first.emplace_back(ref.source, ref.index);
  }
  const std::vector<std::pair<uint32_t, int64_t>> wanted = {
      {0, 890}, {1, 26},  {0, 829}, {2, 126},
      {2, 167}, {0, 738}, {2, 60},  {2, 72}};
  EXPECT_EQ(first, wanted);
}

// The idea of a mixture: whatever the shares, every source is walked sample by
// sample, and comes to an end before it begins anew, over all epochs.
TEST_F(Mixture, EverySourceIsWalkedExactlyOnceAVisit) {
  for (const std::string& rest :
       {std::string("batch_size: 10 seed: 3"),
        std::string("batch_size: 64 seed: 3 epoch_samples: 500"),
        std::string("batch_size: 64 last_batch: LAST_BATCH_PAD"),
        std::string("batch_size: 64 epoch_samples: 333 last_batch: "
                    "LAST_BATCH_PARTIAL"),
        std::string("batch_size: 10 shuffle { mode: SEQUENTIAL }"),
        std::string("batch_size: 10 shuffle { mode: BLOCK block_size: 8 "
                    "window_blocks: 3 }")}) {
    const Plan plan = MakePlan(kThree + rest);
    EXPECT_EQ(plan.steps().dropped(), 0u);
    std::map<std::pair<uint32_t, uint64_t>, std::set<int64_t>> visits;
    std::map<uint32_t, uint64_t> taken;
    constexpr uint64_t kEpochs = 9;
    std::set<uint64_t> keys;
    for (uint64_t e = 0; e < kEpochs; ++e) {
      const Plan::Epoch epoch = plan.ForEpoch(e);
      for (uint64_t p = 0; p < plan.steps().samples(); ++p) {
        const SampleRef ref = epoch.At(p);
        ASSERT_TRUE(ref.valid);
        ASSERT_LT(ref.index, infos_[ref.source].samples());
        ASSERT_TRUE((visits[{ref.source, ref.visit}].insert(ref.index).second));
        ASSERT_TRUE(keys.insert(ref.key).second);
        ++taken[ref.source];
      }
    }
    for (uint32_t i = 0; i < 3; ++i) {
      const auto n = static_cast<uint64_t>(infos_[i].samples());
      EXPECT_EQ(taken[i], kEpochs * plan.per_epoch(i));
      for (uint64_t v = 0; v < taken[i] / n; ++v) {
        EXPECT_EQ((visits[{i, v}].size()), n) << rest;
      }
      EXPECT_EQ((visits[{i, taken[i] / n}].size()), taken[i] % n) << rest;
    }
  }
}

TEST_F(Mixture, AnEpochIsAllSamplesUnlessTheSpecSaysAnother) {
  EXPECT_EQ(MakePlan(std::string(kThree) + "batch_size: 10").steps().samples(),
            1330u);  // of 1337
  EXPECT_EQ(MakePlan(std::string(kThree) +
                     "batch_size: 10 last_batch: LAST_BATCH_PAD")
                .steps()
                .samples(),
            1337u);
  const Plan plan =
      MakePlan(std::string(kThree) + "batch_size: 10 epoch_samples: 205");
  EXPECT_EQ(plan.steps().samples(), 200u);
  EXPECT_EQ(plan.steps().steps(), 20u);
  EXPECT_EQ(plan.per_epoch(0), 100u);
  EXPECT_EQ(plan.per_epoch(1), 40u);
  EXPECT_EQ(plan.per_epoch(2), 60u);
  const auto few =
      TryPlan(std::string(kThree) + "batch_size: 10 epoch_samples: 9");
  EXPECT_EQ(few.status().code(), absl::StatusCode::kInvalidArgument);
}

// One source with epochs of another length: epochs go on where the last ended.
TEST_F(Mixture, ASourceMayHaveEpochsOfAnotherLength) {
  const Plan plan = MakePlan(
      "sources { dataset: 'c' } batch_size: 10 epoch_samples: 100 seed: 7");
  std::set<int64_t> seen;
  for (uint64_t e = 3; e < 6; ++e) {
    for (uint64_t p = 0; p < 100; ++p) {
      const SampleRef ref = plan.ForEpoch(e).At(p);
      EXPECT_EQ(ref.visit, 1u);
      EXPECT_EQ(ref.key, SampleKey(7, e, 0, ref.index, 1));
      EXPECT_TRUE(seen.insert(ref.index).second);
    }
  }
  EXPECT_EQ(seen.size(), 300u);
  const Plan plain = MakePlan("sources { dataset: 'c' } batch_size: 10");
  EXPECT_FALSE(plain.schedule().has_value());
  EXPECT_NE(plan.hash(), plain.hash());
}

TEST_F(Mixture, ConcatenatedSourcesAreOneDataset) {
  const std::string three =
      "sources { dataset: 'a' } sources { dataset: 'b' } "
      "sources { dataset: 'c' } concatenate: true ";
  for (const char* mode : {"mode: GLOBAL", "mode: SEQUENTIAL",
                           "mode: BLOCK block_size: 8 window_blocks: 3"}) {
    const Plan plan = MakePlan(three +
                               "batch_size: 10 seed: 4 last_batch: "
                               "LAST_BATCH_PAD shuffle { " +
                               mode + " }");
    EXPECT_EQ(plan.steps().samples(), 1337u);
    std::set<std::pair<uint32_t, int64_t>> seen;
    const Plan::Epoch epoch = plan.ForEpoch(2);
    for (uint64_t p = 0; p < 1337; ++p) {
      const SampleRef ref = epoch.At(p);
      ASSERT_TRUE(seen.emplace(ref.source, ref.index).second);
      EXPECT_EQ(ref.key, SampleKey(4, 2, ref.source, ref.index, 0));
    }
    EXPECT_EQ(seen.size(), 1337u);
    for (const auto& [source, index] : seen) {
      EXPECT_LT(index, infos_[source].samples());
    }
    EXPECT_FALSE(epoch.At(1337).valid);
  }
  const Plan plan =
      MakePlan(three + "batch_size: 10 shuffle { mode: SEQUENTIAL }");
  EXPECT_EQ(plan.steps().dropped(), 7u);
  const Plan::Epoch epoch = plan.ForEpoch(0);
  EXPECT_EQ(epoch.At(999).source, 0u);
  EXPECT_EQ(epoch.At(999).index, 999);
  EXPECT_EQ(epoch.At(1000).source, 1u);
  EXPECT_EQ(epoch.At(1000).index, 0);
  EXPECT_EQ(epoch.At(1037).source, 2u);
  EXPECT_EQ(epoch.At(1037).index, 0);
}

TEST_F(Mixture, ASingleSourceStaysWhatItIs) {
  const Plan plain = MakePlan("sources { dataset: 'a' } batch_size: 10");
  const Plan flagged = MakePlan(
      "sources { dataset: 'a' weight: 3 } batch_size: 10 concatenate: true");
  EXPECT_EQ(plain.hash(), flagged.hash());
  EXPECT_EQ(plain.fingerprint(), "of a");
}

// The same global batches at any number of ranks, between epochs and inside of
// one: what a step holds does not depend on the world that asks for it.
TEST_F(Mixture, TheGlobalBatchesAreTheSameForAnyNumberOfRanks) {
  const std::string concatenated =
      "sources { dataset: 'a' } sources { dataset: 'b' } concatenate: true ";
  for (const std::string& sources :
       {std::string(kThree), concatenated,
        std::string("sources { dataset: 'a' } "),
        std::string("sources { dataset: 'a' subset { to: 0.7 } } "),
        std::string("sources { dataset: 'a' } epoch_samples: 250 ")}) {
    for (const char* last :
         {"LAST_BATCH_DROP", "LAST_BATCH_PAD", "LAST_BATCH_PARTIAL"}) {
      const Plan plan =
          MakePlan(sources + "batch_size: 24 seed: 1 " + "last_batch: " + last);
      uint64_t rows = 0, valid = 0;
      for (uint64_t epoch : {0, 5}) {
        for (uint64_t step = 0; step < plan.steps().steps(); ++step) {
          const std::vector<Row> one = RowsOf(plan, epoch, step, 1);
          for (uint32_t world : {2, 3, 4, 6, 8}) {
            ASSERT_EQ(RowsOf(plan, epoch, step, world), one)
                << sources << last << " step " << step << " world " << world;
          }
          rows += one.size();
          for (const Row& row : one) valid += std::get<1>(row) >= 0;
        }
      }
      EXPECT_EQ(valid, 2 * (plan.steps().samples() - plan.steps().dropped()));
      const bool pads = last == std::string("LAST_BATCH_PAD");
      EXPECT_EQ(rows, pads ? 2 * 24 * plan.steps().steps() : valid);
    }
  }
}

TEST_F(Mixture, SubstitutesAreOfTheSameSourceAndVisit) {
  const Plan plan = MakePlan(
      "sources { dataset: 'a' subset { to: 0.1 } weight: 1 } "
      "sources { dataset: 'b' weight: 1 } batch_size: 10 seed: 2");
  const Plan::Epoch epoch = plan.ForEpoch(4);
  for (uint64_t p = 0; p < 100; ++p) {
    const SampleRef bad = epoch.At(p);
    std::set<int64_t> tried = {bad.index};
    for (uint64_t attempt = 1; attempt < 30; ++attempt) {
      const SampleRef other = epoch.Substitute(bad, attempt);
      EXPECT_EQ(other.source, bad.source);
      EXPECT_EQ(other.visit, bad.visit);
      const bool is_new = tried.insert(other.index).second;
      EXPECT_TRUE(is_new || attempt > Plan::kNeighbours) << attempt;
      EXPECT_EQ(other.key, SampleKey(2, 4, bad.source, other.index, bad.visit));
    }
  }
}

TEST_F(Mixture, FingerprintAndHashAreOfAllSourcesInTheirOrder) {
  std::set<std::string> fingerprints, hashes;
  for (const char* sources :
       {"sources { dataset: 'a' } sources { dataset: 'b' }",
        "sources { dataset: 'b' } sources { dataset: 'a' }",
        "sources { dataset: 'a' } sources { dataset: 'a' }",
        "sources { dataset: 'a' }"}) {
    const Plan plan = MakePlan(std::string("batch_size: 10 ") + sources);
    EXPECT_TRUE(fingerprints.insert(plan.fingerprint()).second);
    EXPECT_TRUE(hashes.insert(plan.hash()).second);
  }
  for (const char* sources :
       {"sources { dataset: 'a' weight: 2 } sources { dataset: 'b' }",
        "sources { dataset: 'a' } sources { dataset: 'b' } concatenate: true",
        "sources { dataset: 'a' } sources { dataset: 'b' } epoch_samples: 9 "
        "last_batch: LAST_BATCH_PAD"}) {
    EXPECT_TRUE(
        hashes.insert(MakePlan(std::string("batch_size: 10 ") + sources).hash())
            .second);
  }
  // A weight of 1 is what is written out.
  EXPECT_EQ(MakePlan("batch_size: 10 sources { dataset: 'a' weight: 1 } "
                     "sources { dataset: 'b' weight: 1 }")
                .hash(),
            MakePlan("batch_size: 10 sources { dataset: 'a' } "
                     "sources { dataset: 'b' }")
                .hash());
}

TEST_F(Mixture, AnyEpochMayBeAskedFor) {
  const Plan plan = MakePlan(std::string(kThree) + "batch_size: 10");
  for (uint64_t e : {uint64_t{1} << 40, ~uint64_t{0} - 1, ~uint64_t{0}}) {
    const Plan::Epoch epoch = plan.ForEpoch(e);
    std::set<std::tuple<uint32_t, int64_t, uint64_t>> seen;
    for (uint64_t p = 0; p < plan.steps().samples(); ++p) {
      const SampleRef ref = epoch.At(p);
      ASSERT_LT(ref.index, infos_[ref.source].samples());
      ASSERT_TRUE(seen.emplace(ref.source, ref.index, ref.visit).second);
    }
  }
}

TEST_F(Mixture, RefusesWhatCannotBeMixed) {
  const auto refused = [this](const std::string& text) {
    const auto plan = TryPlan("batch_size: 10 " + text);
    EXPECT_FALSE(plan.ok()) << text;
    return plan.status();
  };
  const auto message = [](const absl::Status& status) {
    return std::string(status.message());
  };
  const std::string two = "sources { dataset: 'a' } sources { dataset: 'b' } ";
  EXPECT_NE(message(refused("sources { dataset: 'a' weight: 1 } sources { "
                            "dataset: 'b' } concatenate: true"))
                .find("sources[0].weight: concatenated sources"),
            std::string::npos);
  EXPECT_NE(message(refused(two + "concatenate: true epoch_samples: 5"))
                .find("epoch_samples: an epoch of concatenated"),
            std::string::npos);
  EXPECT_NE(message(refused(two + "outputs { field: 'x' name: 'source_index' "
                                  "}"))
                .find("cannot have the name source_index"),
            std::string::npos);
  const absl::Status none = refused(
      "sources { dataset: 'a' } sources { "
      "dataset: 'nowhere' }");
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(GetErrorDetail(none).dataset(), "nowhere");
  std::string many;
  for (int i = 0; i < 257; ++i) many += "sources { dataset: 'a' } ";
  EXPECT_NE(message(refused(many)).find("the maximum is 256"),
            std::string::npos);
}

TEST_F(Mixture, SourcesThatGiveOtherTensorsAreRefusedWithWhatDiffers) {
  const auto refused = [this](const DatasetInfo& other,
                              const std::string& rest = "") {
    Register({Info("a", 100), other});
    const auto plan = TryPlan(
        "batch_size: 10 sources { dataset: 'a' } sources { dataset: 'z' } " +
        rest);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(GetErrorDetail(plan.status()).dataset(), "z");
    return std::string(plan.status().message());
  };
  // What is wrong with one alone did not say which.
  DatasetInfo ragged = Info("z", 50);
  ragged.mutable_schema()->mutable_fields(0)->set_kind(FIELD_KIND_RAGGED);
  EXPECT_EQ(refused(ragged).find("sources[1], dataset z: outputs: "), 0u);
  DatasetInfo other = Info("z", 50);
  other.mutable_schema()->mutable_fields(0)->add_shape(3);
  EXPECT_EQ(refused(other),
            "sources[1]: field x is int64 [3] in dataset z and int64 [] in "
            "dataset a (sources[0]); sources that are mixed must give the same "
            "tensors: add transforms that convert them to one size and type");
  other = Info("z", 50);
  other.mutable_schema()->mutable_fields(0)->set_num_classes(10);
  EXPECT_EQ(
      refused(other),
      "sources[1]: field x is of 10 classes in dataset z and without classes "
      "in dataset a (sources[0]); sources that are mixed must give the same "
      "tensors: pack the datasets with one list of classes");
  other = Info("z", 50);
  *other.mutable_schema()->add_fields() = other.schema().fields(0);
  other.mutable_schema()->mutable_fields(1)->set_name("more");
  EXPECT_EQ(refused(other),
            "sources[1]: the outputs are more, x in dataset z and x in dataset "
            "a (sources[0]); sources that are mixed must give the same "
            "tensors: list the outputs that all sources have");
  // Which is what it says.
  EXPECT_TRUE(TryPlan("batch_size: 10 sources { dataset: 'a' } "
                      "sources { dataset: 'z' } outputs { field: 'x' }")
                  .ok());
}

TEST_F(Mixture, ClassesMustAgreeWhereBothKnowThem) {
  const auto labelled = [](const std::string& name,
                           const std::vector<std::string>& classes) {
    DatasetInfo info = Info(name, 50);
    Field& field = *info.mutable_schema()->mutable_fields(0);
    field.set_num_classes(2);
    for (const std::string& c : classes) field.add_class_names(c);
    return info;
  };
  const std::string text =
      "batch_size: 10 sources { dataset: 'a' } sources { dataset: 'z' } ";
  Register({labelled("a", {"cat", "dog"}), labelled("z", {"dog", "cat"})});
  EXPECT_EQ(std::string(TryPlan(text).status().message()),
            "sources[1]: class 0 of field x is dog in dataset z and cat in "
            "dataset a (sources[0]); sources that are mixed must give the same "
            "tensors: pack the datasets with one list of classes");
  Register({labelled("a", {"cat", "dog"}), labelled("z", {})});
  EXPECT_TRUE(TryPlan(text).ok());
}

}  // namespace
}  // namespace millrace::plan
