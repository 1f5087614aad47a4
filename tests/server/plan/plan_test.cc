#include "server/plan/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "proto/dataset_name.h"
#include "proto/spec_text.h"
#include "server/plan/content_revision.h"
#include "server/plan/plan_hash.h"
#include "server/plan/presets.h"
#include "server/plan/resolve.h"

namespace millrace::plan {
namespace {

DatasetInfo Info(int64_t samples) {
  DatasetInfo info;
  info.set_name("numbers");
  info.set_samples(samples);
  info.set_fingerprint("f00d");
  Field* field = info.mutable_schema()->add_fields();
  field->set_name("x");
  field->set_kind(FIELD_KIND_TENSOR);
  field->set_dtype(DTYPE_INT64);
  return info;
}

PipelineSpec Resolved(const DatasetInfo& info, const std::string& text) {
  auto spec = ParseSpecText(text + " sources { dataset: 'numbers' }", "test");
  EXPECT_TRUE(spec.ok()) << spec.status();
  auto resolved = ResolveSpec(*spec, {{"numbers", &info}});
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return *resolved;
}

Plan MakePlan(const DatasetInfo& info, const std::string& text) {
  auto plan = Plan::Create(Resolved(info, text), info);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

std::vector<int64_t> OrderOf(const Plan& plan, uint64_t epoch, uint32_t world) {
  std::vector<int64_t> order;
  const Plan::Epoch e = plan.ForEpoch(epoch);
  for (uint64_t step = 0; step < plan.steps().steps(); ++step) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      const auto rows = plan.steps().Rows(step, rank, world);
      for (uint64_t i = 0; i < rows->rows; ++i) {
        const SampleRef ref = e.At(rows->first + i);
        EXPECT_EQ(ref.position, rows->first + i);
        EXPECT_EQ(ref.valid, i < rows->valid);
        order.push_back(ref.index);
      }
    }
  }
  return order;
}

TEST(Plan, TheGlobalOrderIsTheSameForAnyNumberOfRanks) {
  const DatasetInfo info = Info(101);
  for (const char* text :
       {"batch_size: 12 seed: 3", "batch_size: 12 last_batch: LAST_BATCH_PAD",
        "batch_size: 12 last_batch: LAST_BATCH_PARTIAL",
        "batch_size: 12 shuffle { mode: BLOCK block_size: 5 window_blocks: 2 }",
        "batch_size: 12 shuffle { mode: SEQUENTIAL }"}) {
    const Plan plan = MakePlan(info, text);
    const std::vector<int64_t> one = OrderOf(plan, 4, 1);
    for (uint32_t world : {2, 3, 4, 12}) {
      EXPECT_EQ(OrderOf(plan, 4, world), one) << text << " world " << world;
    }
    std::set<int64_t> distinct(one.begin(), one.end());
    distinct.erase(-1);
    EXPECT_EQ(distinct.size() + plan.steps().dropped(), 101u) << text;
  }
}

TEST(Plan, KeysDoNotDependOnOrderOrBatch) {
  const DatasetInfo info = Info(100);
  const Plan a = MakePlan(info, "batch_size: 10 seed: 3");
  const Plan b =
      MakePlan(info, "batch_size: 25 seed: 3 shuffle { mode: SEQUENTIAL }");
  const Plan c = MakePlan(info, "batch_size: 10 seed: 4");
  std::vector<uint64_t> keys(100);
  for (int p = 0; p < 100; ++p) {
    const SampleRef ref = a.ForEpoch(2).At(p);
    keys[ref.index] = ref.key;
    EXPECT_EQ(ref.key, SampleKey(3, 2, 0, ref.index, 0));
  }
  for (int p = 0; p < 100; ++p) {
    EXPECT_EQ(b.ForEpoch(2).At(p).key, keys[p]);
    EXPECT_NE(b.ForEpoch(3).At(p).key, keys[p]);
    EXPECT_NE(c.ForEpoch(2).At(p).key, keys[c.ForEpoch(2).At(p).index]);
  }
}

TEST(Plan, PaddingHasNoIndex) {
  const DatasetInfo info = Info(5);
  const Plan plan = MakePlan(info, "batch_size: 4 last_batch: LAST_BATCH_PAD");
  const SampleRef ref = plan.ForEpoch(0).At(7);
  EXPECT_FALSE(ref.valid);
  EXPECT_EQ(ref.index, -1);
}

TEST(Plan, SubstitutesStayWithinTheSubset) {
  const DatasetInfo info = Info(100);
  auto spec = ParseSpecText(
      "batch_size: 2 sources { dataset: 'numbers' subset "
      "{ from: 0 to: 0.3 seed: 5 } }",
      "test");
  auto resolved = ResolveSpec(*spec, {{"numbers", &info}});
  auto plan = Plan::Create(*resolved, info);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->steps().samples(), 30u);
  const Plan::Epoch epoch = plan->ForEpoch(1);
  std::set<int64_t> members;
  for (int p = 0; p < 30; ++p) members.insert(epoch.At(p).index);
  ASSERT_EQ(members.size(), 30u);
  for (int p = 0; p < 30; ++p) {
    const SampleRef bad = epoch.At(p);
    std::set<int64_t> tried = {bad.index};
    for (uint64_t attempt = 1; attempt <= Plan::kMaxSubstitutes; ++attempt) {
      const SampleRef other = epoch.Substitute(bad, attempt);
      EXPECT_TRUE(members.count(other.index)) << other.index;
      const bool is_new = tried.insert(other.index).second;
      EXPECT_TRUE(is_new || attempt > Plan::kNeighbours) << attempt;
      EXPECT_EQ(other.position, bad.position);
      EXPECT_EQ(other.key, SampleKey(0, 1, 0, other.index, 0));
    }
    EXPECT_EQ(tried, members);  // one sound sample would be enough
  }
}

// The numbers are part of what a batch is.
TEST(Plan, SubstitutesAreTheseForEver) {
  const DatasetInfo info = Info(1000);
  auto spec =
      ParseSpecText("batch_size: 2 sources { dataset: 'numbers' }", "test");
  auto resolved = ResolveSpec(*spec, {{"numbers", &info}});
  auto plan = Plan::Create(*resolved, info);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Plan::Epoch epoch = plan->ForEpoch(1);
  SampleRef bad = epoch.At(0);
  bad.index = 990;
  std::vector<int64_t> indexes;
  for (const uint64_t attempt : {1, 2, 16, 17, 18, 19, 256}) {
    indexes.push_back(epoch.Substitute(bad, attempt).index);
  }
  EXPECT_EQ(indexes, (std::vector<int64_t>{991, 992, 6, 608, 226, 844, 318}));
}

// A run of damaged samples as long as a shard is left after a step or two.
TEST(Plan, SubstitutesLeaveALongRun) {
  for (const uint64_t n : {1000, 4096, 100'000, 99'991}) {
    const DatasetInfo info = Info(n);
    auto spec =
        ParseSpecText("batch_size: 2 sources { dataset: 'numbers' }", "test");
    auto resolved = ResolveSpec(*spec, {{"numbers", &info}});
    auto plan = Plan::Create(*resolved, info);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Plan::Epoch epoch = plan->ForEpoch(0);
    SampleRef bad = epoch.At(0);
    for (const uint64_t run : {n / 4, n / 2, n - n / 50}) {
      for (uint64_t place = 0; place < run; place += run / 37) {
        bad.index = static_cast<int64_t>(place);
        uint64_t attempt = 1;
        while (attempt <= Plan::kMaxSubstitutes &&
               epoch.Substitute(bad, attempt).index <
                   static_cast<int64_t>(run)) {
          ++attempt;
        }
        EXPECT_LE(attempt, Plan::kNeighbours + (run <= n / 2 ? 3 : 100))
            << place << " of a run of " << run << " of " << n;
      }
    }
  }
}

TEST(PlanHash, IsTheSameForEver) {
  const DatasetInfo info = Info(100);
  const PipelineSpec spec = Resolved(info, "batch_size: 10");
  EXPECT_EQ(absl::BytesToHexString(PlanHash(spec, "f00d", 1)),
            "28ea86bf1f4f1bfee887248259a5b183");
  // A plan takes the revision of this program.
  EXPECT_EQ(MakePlan(info, "batch_size: 10").hash(),
            PlanHash(spec, "f00d", kContentRevision));
}

// Servers whose libjpeg makes other pixels make other batches of images, and
// the same of everything else.
TEST(PlanHash, HoldsTheImageDecodersOfAPlanThatDecodesImages) {
  DatasetInfo info = Info(100);
  const auto hash = [&](const std::string& text, const std::string& digest) {
    const PipelineSpec spec = Resolved(info, text);
    const auto plan = Plan::Create(spec, info, digest);
    EXPECT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->decoder_digest(), DecodesImages(spec) ? digest : "");
    EXPECT_EQ(plan->hash(),
              PlanHash(spec, plan->fingerprint(), kContentRevision, digest));
    return plan->hash();
  };
  const std::string stored = "batch_size: 10";
  EXPECT_EQ(hash(stored, "a"), hash(stored, "b"));
  info.mutable_schema()->clear_fields();
  Field& image = *info.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  const std::string decoded = "batch_size: 10 preset: 'imagenet_eval'";
  EXPECT_NE(hash(decoded, "a"), hash(decoded, "b"));
  EXPECT_NE(hash(decoded, "a"), hash(decoded, ""));
  EXPECT_EQ(hash(decoded, "a"), hash(decoded, "a"));
}

// What the first version resolved keeps its hash: transforms and fields that
// came later take no part where they are not used. Computed with that version.
TEST(PlanHash, OfTheFirstPresetsIsTheSameForEver) {
  DatasetInfo info = Info(100);
  info.mutable_schema()->clear_fields();
  Field& image = *info.mutable_schema()->add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  const std::pair<const char*, const char*> hashes[] = {
      {"mnist", "77ee8eeeae4cdd205bbab0ea7fb1f5ab"},
      {"imagenet_train", "5ce1fd27b61aa3ef546b06135fdcbe23"},
      {"imagenet_eval", "9b29d79f9e113f462c7f072cfe097e89"},
  };
  for (const auto& [preset, hash] : hashes) {
    const PipelineSpec spec =
        Resolved(info, std::string("batch_size: 10 preset: '") + preset + "'");
    EXPECT_EQ(absl::BytesToHexString(PlanHash(spec, "f00d", 1)), hash)
        << preset;
  }
}

// The same for what came with the second version.
TEST(PlanHash, OfEveryPresetIsTheSameForEver) {
  DatasetInfo info = Info(100);
  info.mutable_schema()->clear_fields();
  for (const char* name : {"image", "mask"}) {
    Field& field = *info.mutable_schema()->add_fields();
    field.set_name(name);
    field.set_kind(FIELD_KIND_ENCODED_IMAGE);
  }
  Field& label = *info.mutable_schema()->add_fields();
  label.set_name("label");
  label.set_kind(FIELD_KIND_TENSOR);
  label.set_dtype(DTYPE_INT64);
  label.set_num_classes(10);
  const std::map<std::string, std::string> hashes = {
      {"article_albumentations", "59764c7e06a1739e844231862fa9f140"},
      {"cifar_eval", "eaea52cd42e937db18355c46e9d97d2f"},
      {"cifar_train", "53dd390d43d84fef6e4fd95271eb947b"},
      {"fashion_mnist", "9ba239a62adcfcabfc5207311dab0672"},
      {"imagenet_eval", "19f4412d4c1443824c5ee866f01641cd"},
      {"imagenet_eval_v2", "1865a703e3263e19cf96ecc6bd67ecde"},
      {"imagenet_train", "9e54f0298e3e60f2fc906470291da2a2"},
      {"imagenet_train_v2", "e70ec2be309489b320f72149859e7a96"},
      {"mnist", "523e1313727d8063442446e6874b17d4"},
      {"segmentation_train", "2e508dc52fa7ad4959785240cb252c3e"},
  };
  for (const std::string& preset : PresetNames()) {
    const PipelineSpec spec =
        Resolved(info, "batch_size: 10 preset: '" + preset + "'" +
                           (preset == "segmentation_train"
                                ? ""
                                : " outputs { field: 'image' } "
                                  "outputs { field: 'label' }"));
    const std::string hash = absl::BytesToHexString(PlanHash(spec, "f00d", 2));
    // A preset that is added is added here, too.
    const auto known = hashes.find(preset);
    EXPECT_NE(known, hashes.end())
        << "{\"" << preset << "\", \"" << hash << "\"},";
    if (known == hashes.end()) continue;
    EXPECT_EQ(hash, known->second) << preset;
  }
}

TEST(PlanHash, ChangesWithEverythingThatMatters) {
  DatasetInfo info = Info(100);
  std::set<std::string> hashes;
  for (const char* text :
       {"batch_size: 10", "batch_size: 20", "batch_size: 10 seed: 1",
        "batch_size: 10 last_batch: LAST_BATCH_PAD",
        "batch_size: 10 shuffle { mode: SEQUENTIAL }",
        "batch_size: 10 bad_samples { action: ZERO }",
        "batch_size: 10 outputs { field: 'x' name: 'y' }"}) {
    EXPECT_TRUE(hashes.insert(MakePlan(info, text).hash()).second) << text;
  }
  info.set_fingerprint("beef");
  EXPECT_TRUE(hashes.insert(MakePlan(info, "batch_size: 10").hash()).second);
  const PipelineSpec spec = Resolved(info, "batch_size: 10");
  EXPECT_NE(PlanHash(spec, "beef", 1), PlanHash(spec, "beef", 2));
  EXPECT_EQ(PlanHash(spec, "beef", 1).size(), 16u);
}

// A server of leases numbers folders of one fingerprint. A checkpoint of one of
// them continues whatever its number is then.
TEST(PlanHash, LeavesOutTheNumberInTheNameOfADataset) {
  const auto hash = [](const std::string& name) {
    PipelineSpec spec = Resolved(Info(100), "batch_size: 10");
    spec.mutable_sources(0)->set_dataset(name);
    return PlanHash(spec, "f00d", 1);
  };
  EXPECT_EQ(hash(NumberedName("data-0123", 2)), hash("data-0123"));
  EXPECT_EQ(hash(NumberedName("data-0123", 17)),
            hash(NumberedName("data-0123", 1)));
  EXPECT_NE(hash("data-01232"), hash("data-0123"));
  EXPECT_NE(hash("data-0124"), hash("data-0123"));
}

// A field that a later version adds must not change the hash of specs that do
// not use it: what is not set, or set to its default, is not encoded.
TEST(PlanHash, DefaultValuesAreNotEncoded) {
  PipelineSpec spec;
  EXPECT_EQ(CanonicalEncoding(spec), "");
  spec.set_seed(0);
  spec.mutable_shuffle()->set_mode(Shuffle::GLOBAL);
  spec.mutable_bad_samples();
  EXPECT_EQ(CanonicalEncoding(spec), "");
  spec.set_seed(5);
  EXPECT_EQ(absl::BytesToHexString(CanonicalEncoding(spec)),
            "040500000000000000");
  spec.clear_seed();
  // Which transform it is counts, and so does a probability of zero.
  spec.add_transforms()->mutable_horizontal_flip();
  const std::string plain = CanonicalEncoding(spec);
  spec.mutable_transforms(0)->mutable_horizontal_flip()->set_p(0);
  EXPECT_NE(CanonicalEncoding(spec), plain);
  spec.mutable_transforms(0)->mutable_center_crop();
  EXPECT_NE(CanonicalEncoding(spec), plain);
}

}  // namespace
}  // namespace millrace::plan
