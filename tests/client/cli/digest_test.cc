#include "client/cli/digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "xxhash.h"

namespace millrace::cli {
namespace {

using ::testing::HasSubstr;

struct Sample {
  int64_t index = 0;
  bool valid = true;
  std::string bytes;  // of the dense tensor, 3 bytes
  std::string text;   // ragged
  int32_t source = 0;
};

struct Batch {
  BatchHeader header;
  std::vector<uint8_t> payload;
};

// Tensors data uint8[3], text ragged, source_index where asked for,
// sample_index, valid.
Batch MakeBatch(uint64_t first_position, const std::vector<Sample>& samples,
                bool with_sources = false) {
  Batch batch;
  batch.header.set_rows(samples.size());
  batch.header.set_first_position(first_position);
  std::vector<uint8_t>& payload = batch.payload;
  const auto append = [&payload](const std::string& bytes) {
    // Padding that no digest may depend on.
    while (payload.size() % 64 != 0) {
      payload.push_back(static_cast<uint8_t>(payload.size() * 7));
    }
    const uint64_t offset = payload.size();
    payload.insert(payload.end(), bytes.begin(), bytes.end());
    return offset;
  };
  const auto int64_text = [](int64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), 8);
  };
  std::string data, offsets = int64_text(0), values, source, index, valid;
  for (const Sample& sample : samples) {
    data += sample.bytes;
    values += sample.text;
    offsets += int64_text(static_cast<int64_t>(values.size()));
    source.append(reinterpret_cast<const char*>(&sample.source), 4);
    index += int64_text(sample.index);
    valid += static_cast<char>(sample.valid);
  }
  const auto add = [&](const char* name, DType dtype, std::vector<int> shape,
                       const std::string& bytes) {
    TensorHeader* tensor = batch.header.add_tensors();
    tensor->set_name(name);
    tensor->set_dtype(dtype);
    for (int d : shape) tensor->add_sample_shape(d);
    tensor->set_offset(append(bytes));
    tensor->set_bytes(bytes.size());
    return tensor;
  };
  add("data", DTYPE_UINT8, {3}, data);
  TensorHeader* text = add("text", DTYPE_UINT8, {-1}, offsets);
  text->set_values_offset(append(values));
  text->set_values_bytes(values.size());
  if (with_sources) add("source_index", DTYPE_INT32, {}, source);
  add("sample_index", DTYPE_INT64, {}, index);
  add("valid", DTYPE_BOOL, {}, valid);
  return batch;
}

std::vector<Sample> MakeSamples(int count) {
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) {
    samples.push_back({.index = (i * 7) % count,
                       .bytes = {static_cast<char>(i), 'x', 'y'},
                       .text = std::string(i % 4, static_cast<char>('a' + i))});
  }
  return samples;
}

// The epoch cut into batches of `rows`, in any order, over some auditors.
EpochAudit Audit(const std::vector<Sample>& samples, size_t rows,
                 uint32_t seed) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < samples.size(); i += rows) starts.push_back(i);
  std::mt19937 random(seed);
  std::shuffle(starts.begin(), starts.end(), random);
  std::vector<EpochAudit> parts(3);
  for (const size_t start : starts) {
    const Batch batch = MakeBatch(
        start, {samples.begin() + start,
                samples.begin() + std::min(start + rows, samples.size())});
    EXPECT_TRUE(parts[random() % 3].Add(batch.header, batch.payload).ok());
  }
  for (int i = 1; i < 3; ++i) parts[0].Merge(parts[i]);
  return parts[0];
}

TEST(EpochAuditTest, DigestsDoNotDependOnBatchesOrOrderOfArrival) {
  const std::vector<Sample> samples = MakeSamples(100);
  const EpochAudit one = Audit(samples, 100, 1);
  EXPECT_EQ(one.samples(), 100);
  EXPECT_EQ(one.distinct(), 100);
  for (const size_t rows : {1, 3, 7, 64}) {
    const EpochAudit other = Audit(samples, rows, rows);
    EXPECT_EQ(other.samples(), 100);
    EXPECT_EQ(other.distinct(), 100);
    EXPECT_EQ(other.order_digest(), one.order_digest());
    EXPECT_EQ(other.content_digest(), one.content_digest());
  }
}

TEST(EpochAuditTest, AnyDifferenceShows) {
  const std::vector<Sample> samples = MakeSamples(20);
  const EpochAudit base = Audit(samples, 5, 1);
  std::vector<Sample> changed = samples;
  changed[7].bytes[2] ^= 1;
  EpochAudit audit = Audit(changed, 5, 1);
  EXPECT_EQ(audit.order_digest(), base.order_digest());
  EXPECT_NE(audit.content_digest(), base.content_digest());

  changed = samples;
  std::swap(changed[3], changed[4]);
  audit = Audit(changed, 5, 1);
  EXPECT_NE(audit.order_digest(), base.order_digest());
  EXPECT_NE(audit.content_digest(), base.content_digest());

  // Ragged values that move from one row to the next.
  changed = samples;
  changed[1].text = "ab";
  changed[2].text = "";
  const EpochAudit ab = Audit(changed, 5, 1);
  changed[1].text = "a";
  changed[2].text = "b";
  EXPECT_NE(Audit(changed, 5, 1).content_digest(), ab.content_digest());
}

TEST(EpochAuditTest, ASampleThatComesTwiceIsNotDistinct) {
  std::vector<Sample> samples = MakeSamples(20);
  samples[11].index = samples[12].index;
  const EpochAudit audit = Audit(samples, 6, 1);
  EXPECT_EQ(audit.samples(), 20);
  EXPECT_EQ(audit.distinct(), 19);
}

TEST(EpochAuditTest, PaddingDoesNotCount) {
  std::vector<Sample> samples = MakeSamples(10);
  const EpochAudit base = Audit(samples, 10, 1);
  for (int i = 0; i < 3; ++i) {
    samples.push_back({.index = -1, .valid = false, .bytes = "\0\0\0"});
    samples.back().bytes.resize(3);
  }
  const EpochAudit padded = Audit(samples, 13, 1);
  EXPECT_EQ(padded.samples(), 10);
  EXPECT_EQ(padded.order_digest(), base.order_digest());
  EXPECT_EQ(padded.content_digest(), base.content_digest());
}

TEST(EpochAuditTest, IsTheSumOfTheHashesAsItIsDefined) {
  const std::vector<Sample> samples = {
      {.index = 5, .bytes = "abc", .text = "hi"},
      {.index = 2, .bytes = "def", .text = ""}};
  const EpochAudit audit = Audit(samples, 2, 1);
  absl::uint128 order = 0;
  absl::uint128 content = 0;
  for (uint64_t position = 0; position < 2; ++position) {
    const Sample& sample = samples[position];
    const auto bytes = [](auto value) {
      return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    const auto hash = [](const std::string& text) {
      const XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
      return absl::MakeUint128(h.high64, h.low64);
    };
    order += hash(bytes(position) + bytes(uint32_t{0}) + bytes(sample.index));
    content += hash(bytes(position) + sample.bytes +
                    bytes(uint64_t{sample.text.size()}) + sample.text +
                    bytes(sample.index) + std::string(1, '\1'));
  }
  EXPECT_EQ(audit.order_digest(), order);
  EXPECT_EQ(audit.content_digest(), content);
}

TEST(EpochAuditTest, RefusesBatchesThatSayNothingOfTheirSamples) {
  Batch batch = MakeBatch(0, MakeSamples(3));
  BatchHeader header = batch.header;
  header.mutable_tensors()->DeleteSubrange(2, 1);
  EpochAudit audit;
  EXPECT_TRUE(absl::IsDataLoss(audit.Add(header, batch.payload)));
  batch = MakeBatch(0, {{.index = -1, .valid = true, .bytes = "abc"}});
  const absl::Status status = audit.Add(batch.header, batch.payload);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(status.message(), HasSubstr("index -1"));
}

TEST(IndexSetTest, CountsLikeASetAndMerges) {
  std::mt19937_64 random(7);
  std::set<uint64_t> expected[2];
  IndexSet sets[2];
  for (int i = 0; i < 5000; ++i) {
    const int which = static_cast<int>(random() % 2);
    const uint64_t index = random() % 3 == 0 ? random() >> 1 : random() % 3000;
    EXPECT_EQ(sets[which].Insert(index), expected[which].insert(index).second);
  }
  EXPECT_EQ(sets[0].size(), expected[0].size());
  std::set<uint64_t> common;
  std::set_intersection(expected[0].begin(), expected[0].end(),
                        expected[1].begin(), expected[1].end(),
                        std::inserter(common, common.end()));
  EXPECT_GT(common.size(), 0u);
  EXPECT_EQ(sets[0].Common(sets[1]), common.size());
  EXPECT_EQ(sets[1].Common(sets[0]), common.size());
  sets[0].Merge(sets[1]);
  expected[0].insert(expected[1].begin(), expected[1].end());
  EXPECT_EQ(sets[0].size(), expected[0].size());
}

TEST(DigestTextTest, Has32Digits) {
  EXPECT_EQ(DigestText(0), "00000000000000000000000000000000");
  EXPECT_EQ(DigestText(absl::MakeUint128(0xab, 1)),
            "00000000000000ab0000000000000001");
}

// Rows {source, index}.
EpochAudit AuditOf(const std::vector<std::pair<int, int64_t>>& rows) {
  std::vector<Sample> samples;
  for (const auto& [source, index] : rows) {
    samples.push_back({.index = index, .bytes = "xyz", .source = source});
  }
  EpochAudit audit;
  const Batch batch = MakeBatch(0, samples, /*with_sources=*/true);
  EXPECT_TRUE(audit.Add(batch.header, batch.payload).ok());
  return audit;
}

TEST(EpochAuditTest, SamplesOfSeveralSourcesAreToldApart) {
  const EpochAudit audit = AuditOf({{0, 5}, {1, 5}, {1, 6}, {1, 6}});
  EXPECT_EQ(audit.samples(), 4);
  EXPECT_EQ(audit.distinct(), 3);
  EXPECT_EQ(audit.samples(1), 3);
  EXPECT_EQ(audit.distinct(1), 2);
  EXPECT_EQ(audit.samples(2), 0);
  EXPECT_NE(audit.order_digest(),
            AuditOf({{1, 5}, {0, 5}, {1, 6}, {1, 6}}).order_digest());
  EpochAudit merged = AuditOf({{0, 5}});
  merged.Merge(audit);
  EXPECT_EQ(merged.distinct(), 3);
  EXPECT_EQ(merged.samples(0), 2);

  EpochAudit none;
  const Batch bad = MakeBatch(0, {{.index = 1, .bytes = "xyz", .source = -1}},
                              /*with_sources=*/true);
  EXPECT_EQ(none.Add(bad.header, bad.payload).code(),
            absl::StatusCode::kDataLoss);
}

TEST(JudgeEpochTest, WithoutAScheduleEverySampleComesOnce) {
  OpenResponse plan;
  plan.set_samples_per_epoch(4);
  plan.set_dropped_per_epoch(1);
  const auto verdict = JudgeEpoch(AuditOf({{0, 1}, {0, 1}, {0, 2}}), plan, 0);
  EXPECT_EQ(verdict.missing, 1);
  EXPECT_EQ(verdict.duplicates, 1);
  const auto good = JudgeEpoch(AuditOf({{0, 1}, {0, 3}, {0, 2}}), plan, 0);
  EXPECT_EQ(good.missing + good.duplicates, 0);
}

// The live audit called what the policy did a loss of data, and --files did
// not.
TEST(JudgeEpochTest, ThePolicyForDamagedSamplesExplains) {
  OpenResponse plan;
  plan.set_samples_per_epoch(4);
  const auto with_empty = [](const std::vector<int64_t>& empty) {
    std::vector<Sample> samples = {
        {.index = 0, .bytes = "xyz"},
        {.index = 1, .bytes = "xyz"},
        {.index = -1, .valid = false, .bytes = "xyz"}};  // padding
    for (const int64_t index : empty) {
      samples.push_back({.index = index, .valid = false, .bytes = "xyz"});
    }
    const Batch batch = MakeBatch(0, samples);
    EpochAudit audit;
    EXPECT_TRUE(audit.Add(batch.header, batch.payload).ok());
    EpochAudit merged;
    merged.Merge(audit);
    return merged;
  };
  auto* const policy = plan.mutable_resolved_spec()->mutable_bad_samples();
  EXPECT_EQ(JudgeEpoch(with_empty({2, 3}), plan, 0).missing, 2) << "FAIL";
  policy->set_action(BadSamplePolicy::ZERO);
  EpochVerdict verdict = JudgeEpoch(with_empty({2, 3}), plan, 0);
  EXPECT_EQ(verdict.missing + verdict.duplicates, 0);
  EXPECT_EQ(verdict.empty_rows, 2);
  verdict = JudgeEpoch(with_empty({2, 1}), plan, 0);
  EXPECT_EQ(verdict.missing, 1) << "an empty row of another sample";
  EXPECT_EQ(verdict.duplicates, 1);
  EXPECT_EQ(JudgeEpoch(with_empty({2}), plan, 0).missing, 1) << "a lost row";

  const EpochAudit again = AuditOf({{0, 0}, {0, 1}, {0, 1}, {0, 3}});
  EXPECT_EQ(JudgeEpoch(again, plan, 0).missing, 1) << "not by ZERO";
  policy->set_action(BadSamplePolicy::SUBSTITUTE);
  verdict = JudgeEpoch(again, plan, 0);
  EXPECT_EQ(verdict.missing + verdict.duplicates, 0);
  EXPECT_EQ(verdict.replaced, 1);
  verdict = JudgeEpoch(AuditOf({{0, 0}, {0, 1}, {0, 1}}), plan, 0);
  EXPECT_EQ(verdict.missing, 2) << "too few rows";
  EXPECT_EQ(verdict.duplicates, 1);
}

// The audit said that 0 samples were replaced.
TEST(JudgeEpochTest, ADroppedSampleThatReplacesAnotherIsCounted) {
  OpenResponse plan;
  plan.set_samples_per_epoch(6);
  plan.set_dropped_per_epoch(2);
  plan.mutable_resolved_spec()->mutable_bad_samples()->set_action(
      BadSamplePolicy::SUBSTITUTE);
  // Samples 4 and 5 are dropped; 4 took the place of 1.
  const EpochAudit audit = AuditOf({{0, 0}, {0, 4}, {0, 2}, {0, 3}});
  const EpochAudit dropped = AuditOf({{0, 5}, {0, 4}});
  EpochVerdict verdict = JudgeEpoch(audit, plan, 0, &dropped);
  EXPECT_EQ(verdict.missing + verdict.duplicates, 0);
  EXPECT_EQ(verdict.replaced, 1);
  EXPECT_FALSE(verdict.replaced_is_min);
  // A sample of the epoch took the place of another one, too.
  verdict =
      JudgeEpoch(AuditOf({{0, 0}, {0, 4}, {0, 0}, {0, 3}}), plan, 0, &dropped);
  EXPECT_EQ(verdict.replaced, 2);
  // The sample of another source is another sample.
  const EpochAudit others = AuditOf({{1, 5}, {1, 4}});
  EXPECT_EQ(JudgeEpoch(audit, plan, 0, &others).replaced, 0);
  EXPECT_TRUE(JudgeEpoch(audit, plan, 0).replaced_is_min);
}

// Four rows an epoch of a source of 6 samples, two of one of 3.
TEST(JudgeEpochTest, WithAScheduleTheWalksAreJudged) {
  OpenResponse plan;
  plan.set_samples_per_epoch(6);
  for (const auto& [samples, rows] : {std::pair{6, 4}, std::pair{3, 2}}) {
    SourcePlan& source = *plan.add_sources();
    source.set_samples(samples);
    source.set_samples_per_epoch(rows);
    source.set_slots(rows);
  }
  using Rows = std::vector<std::pair<int, int64_t>>;
  const Rows first = {{0, 1}, {0, 5}, {0, 2}, {0, 0}, {1, 2}, {1, 0}};
  EXPECT_EQ(JudgeEpoch(AuditOf(first), plan, 0).missing, 0);
  EXPECT_EQ(JudgeEpoch(AuditOf(first), plan, 0).duplicates, 0);
  // Epoch 0 lies within one walk: nothing comes again.
  const Rows again = {{0, 1}, {0, 1}, {0, 2}, {0, 0}, {1, 2}, {1, 0}};
  EXPECT_EQ(JudgeEpoch(AuditOf(again), plan, 0).duplicates, 1);
  // Epoch 1 ends a walk and begins the next: something may.
  EXPECT_EQ(JudgeEpoch(AuditOf(again), plan, 1).duplicates, 0);
  EXPECT_EQ(JudgeEpoch(AuditOf(again), plan, 1).missing, 0);
  // Too few of one source and too many of the other.
  const Rows shifted = {{0, 1}, {0, 5}, {0, 2}, {1, 1}, {1, 2}, {1, 0}};
  EXPECT_EQ(JudgeEpoch(AuditOf(shifted), plan, 0).missing, 1);
  EXPECT_EQ(JudgeEpoch(AuditOf(shifted), plan, 0).duplicates, 1);
  // An epoch that holds a whole walk holds every sample.
  plan.mutable_sources(0)->set_samples(2);
  const Rows few = {{0, 1}, {0, 1}, {0, 1}, {0, 1}, {1, 2}, {1, 0}};
  EXPECT_EQ(JudgeEpoch(AuditOf(few), plan, 0).missing, 1);
}

}  // namespace
}  // namespace millrace::cli
