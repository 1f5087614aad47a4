// Rolling upgrades: specs that earlier programs sent, what Open made of them
// and the plans that came of it, kept as files. Today's code must read them,
// resolve them alike and come to the same hash and order: a job that an earlier
// server opened goes on at this one, and the other way round.
//
// A new case: write NAME.spec.textproto, add its line to kCases, run
// bazel-bin/tests/server/plan/golden/golden_plan_test in the project's root
// with MILLRACE_WRITE_PLANS=tests/testdata/plans and read what it wrote. Lines
// that are there never change while the content revision stays: where they
// would, the code is wrong.

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/spec_text.h"
#include "server/plan/content_revision.h"
#include "server/plan/plan.h"
#include "server/plan/presets.h"
#include "server/plan/resolve.h"
#include "xxhash.h"

namespace millrace::plan {
namespace {

constexpr char kFingerprint[] = "00112233445566778899aabbccddeeff";
// Of the revision that the hashes in plans.txt were made with.
constexpr uint32_t kRevision = 4;

const char* const kCases[] = {"article_albumentations",
                              "blocks",
                              "blocks_of_a_cut",
                              "cifar_eval",
                              "cifar_train",
                              "every_color",
                              "fashion_mnist",
                              "imagenet_eval",
                              "imagenet_eval_v2",
                              "imagenet_train",
                              "imagenet_train_v2",
                              "masks_and_boxes",
                              "mixture",
                              "mnist",
                              "one_source_with_weight",
                              "plain_fields",
                              "segmentation_train"};

Field MakeField(const std::string& name, FieldKind kind, DType dtype,
                const std::vector<int64_t>& shape, int64_t classes = 0) {
  Field field;
  field.set_name(name);
  field.set_kind(kind);
  field.set_dtype(dtype);
  field.mutable_shape()->Add(shape.begin(), shape.end());
  field.set_num_classes(classes);
  return field;
}

Field Image(const std::string& name) {
  return MakeField(name, FIELD_KIND_ENCODED_IMAGE, DTYPE_UNSPECIFIED, {});
}

Field Pixels(int64_t height, int64_t width, int64_t channels) {
  return MakeField("image", FIELD_KIND_TENSOR, DTYPE_UINT8,
                   {height, width, channels});
}

Field Label(int64_t classes) {
  return MakeField("label", FIELD_KIND_TENSOR, DTYPE_INT64, {}, classes);
}

DatasetInfo Dataset(const std::string& name, const std::vector<Field>& fields,
                    int64_t samples) {
  DatasetInfo info;
  info.set_name(name);
  info.set_samples(samples);
  info.set_fingerprint(kFingerprint);
  for (const Field& field : fields) {
    *info.mutable_schema()->add_fields() = field;
  }
  return info;
}

std::string Folder() {
  const char* root = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  const std::string folder = "tests/testdata/plans/";
  if (root == nullptr || workspace == nullptr) return folder;
  return absl::StrCat(root, "/", workspace, "/", folder);
}

std::string ReadText(const std::string& name) {
  std::ifstream file(Folder() + name, std::ios::binary);
  EXPECT_TRUE(file) << "cannot read " << Folder() << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

PipelineSpec ReadSpec(const std::string& name) {
  absl::StatusOr<PipelineSpec> spec = ParseSpecText(ReadText(name), name);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : PipelineSpec();
}

// Every field of the rows of some steps of two epochs, as two ranks of four see
// them.
std::string OrderDigest(const Plan& plan) {
  std::string rows;
  const auto add = [&rows](uint64_t number) {
    for (int i = 0; i < 8; ++i) {
      rows.push_back(static_cast<char>(number >> (8 * i)));
    }
  };
  add(plan.steps().steps());
  for (const uint64_t epoch : {uint64_t{0}, uint64_t{3}}) {
    const Plan::Epoch order = plan.ForEpoch(epoch);
    for (const uint64_t step : {uint64_t{0}, plan.steps().steps() - 1}) {
      for (const uint32_t rank : {0u, 1u}) {
        const auto of_rank = plan.steps().Rows(step, rank, /*world_size=*/2);
        EXPECT_TRUE(of_rank.ok()) << of_rank.status();
        for (uint64_t row = 0; row < of_rank->rows; ++row) {
          const SampleRef ref = order.At(of_rank->first + row);
          add(static_cast<uint64_t>(ref.index));
          add(ref.position);
          add(ref.key);
          add(ref.source);
          add(ref.visit);
          add(ref.valid ? 1 : 0);
        }
      }
    }
  }
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(rows.data(), rows.size()));
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(digest.digest), sizeof(digest.digest)));
}

class GoldenPlan : public testing::Test {
 protected:
  GoldenPlan() {
    infos_ = {
        Dataset("digits", {Pixels(28, 28, 1), Label(10)}, 60'000),
        Dataset("letters", {Pixels(28, 28, 1), Label(10)}, 9001),
        Dataset("cifar", {Pixels(32, 32, 3), Label(10)}, 50'001),
        Dataset("photos", {Image("image"), Label(1000)}, 1'281'167),
        Dataset("segments", {Image("image"), Image("mask"), Label(20)}, 2913),
        Dataset("scenes",
                {Image("image"), Image("mask"),
                 MakeField("boxes", FIELD_KIND_TENSOR, DTYPE_FLOAT32, {20, 4})},
                5000),
        Dataset(
            "captions",
            {Image("image"),
             MakeField("text", FIELD_KIND_RAGGED, DTYPE_UINT8, {}), Label(0)},
            777),
    };
    for (const DatasetInfo& info : infos_) datasets_[info.name()] = &info;
    for (absl::string_view line :
         absl::StrSplit(ReadText("plans.txt"), '\n', absl::SkipEmpty())) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words.size() == 3) golden_[words[0]] = {words[1], words[2]};
    }
  }

  // "" when the spec cannot be resolved; fails then.
  PipelineSpec Resolve(const PipelineSpec& spec) {
    absl::StatusOr<PipelineSpec> resolved = ResolveSpec(spec, datasets_);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    return resolved.ok() ? *resolved : PipelineSpec();
  }

  absl::StatusOr<Plan> PlanOf(const PipelineSpec& resolved) {
    std::vector<const DatasetInfo*> infos;
    for (const Source& source : resolved.sources()) {
      infos.push_back(datasets_.at(source.dataset()));
    }
    absl::StatusOr<Plan> plan = Plan::Create(resolved, infos);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan;
  }

  struct Golden {
    std::string hash;
    std::string order;
  };

  std::vector<DatasetInfo> infos_;
  DatasetInfos datasets_;
  std::map<std::string, Golden> golden_;
};

std::string HashOf(const Plan& plan) {
  return absl::BytesToHexString(plan.hash());
}

TEST_F(GoldenPlan, SpecsResolveToWhatTheyAlwaysDid) {
  ASSERT_EQ(kContentRevision, kRevision)
      << "a new revision: keep the old files as specs that are still read, and "
         "write new plans";
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const PipelineSpec resolved = Resolve(ReadSpec(name + ".spec.textproto"));
    const PipelineSpec golden = ReadSpec(name + ".resolved.textproto");
    EXPECT_TRUE(
        google::protobuf::util::MessageDifferencer::Equals(resolved, golden))
        << "it is now\n"
        << resolved.DebugString() << "and was\n"
        << golden.DebugString();
  }
}

TEST_F(GoldenPlan, AResolvedSpecOfAnEarlierProgramIsTakenAsItIs) {
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const PipelineSpec golden = ReadSpec(name + ".resolved.textproto");
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
        Resolve(golden), golden))
        << Resolve(golden).DebugString();
  }
}

TEST_F(GoldenPlan, ItsHashAndOrderAreWhatTheyAlwaysWere) {
  EXPECT_EQ(golden_.size(), std::size(kCases));
  std::set<std::string> hashes;
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const PipelineSpec golden = ReadSpec(name + ".resolved.textproto");
    const absl::StatusOr<Plan> plan = PlanOf(golden);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(HashOf(*plan), golden_[name].hash);
    EXPECT_EQ(OrderDigest(*plan), golden_[name].order);
    hashes.insert(golden_[name].hash);
  }
  EXPECT_EQ(hashes.size(), std::size(kCases));
}

// The bytes that an earlier program sent, with the fields in its order, mean
// the same as what this one writes.
TEST_F(GoldenPlan, TheHashDoesNotDependOnHowTheSpecWasWrittenDown) {
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    PipelineSpec again;
    ASSERT_TRUE(again.ParseFromString(
        ReadSpec(name + ".resolved.textproto").SerializeAsString()));
    const absl::StatusOr<Plan> plan = PlanOf(again);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(HashOf(*plan), golden_[name].hash);
  }
}

TEST_F(GoldenPlan, EveryPresetHasACase) {
  std::set<std::string> seen;
  for (const std::string name : kCases) {
    seen.insert(ReadSpec(name + ".spec.textproto").preset());
  }
  for (const std::string& preset : PresetNames()) {
    EXPECT_TRUE(seen.contains(preset)) << preset;
  }
}

// Not a test: writes the files, when it is asked to.
TEST_F(GoldenPlan, Write) {
  const char* folder = std::getenv("MILLRACE_WRITE_PLANS");
  if (folder == nullptr) {
    GTEST_SKIP() << "MILLRACE_WRITE_PLANS names no folder: nothing to write";
  }
  std::ofstream plans(absl::StrCat(folder, "/plans.txt"));
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const PipelineSpec resolved = Resolve(ReadSpec(name + ".spec.textproto"));
    std::ofstream file(absl::StrCat(folder, "/", name, ".resolved.textproto"));
    std::string text;
    ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(resolved, &text));
    file << text;
    const absl::StatusOr<Plan> plan = PlanOf(resolved);
    ASSERT_TRUE(plan.ok());
    plans << name << " " << HashOf(*plan) << " " << OrderDigest(*plan) << "\n";
  }
}

}  // namespace
}  // namespace millrace::plan
