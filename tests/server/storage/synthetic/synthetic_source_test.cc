#include "server/storage/synthetic/synthetic_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "proto/half_float.h"
#include "proto/synthetic.h"
#include "server/storage/sample_check.h"
#include "server/storage/synthetic/synthetic_values.h"
#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;
using Sample = std::vector<std::string>;

SyntheticField& AddField(Synthetic& synthetic, const std::string& name,
                         DType dtype, const std::vector<int64_t>& shape = {},
                         int64_t num_classes = 0) {
  SyntheticField& field = *synthetic.add_fields();
  field.set_name(name);
  field.set_dtype(dtype);
  field.mutable_shape()->Add(shape.begin(), shape.end());
  field.set_num_classes(num_classes);
  return field;
}

Synthetic EveryType(uint64_t samples) {
  Synthetic synthetic;
  synthetic.set_samples(samples);
  synthetic.set_seed(5);
  AddField(synthetic, "image", DTYPE_UINT8, {7, 5, 3});
  AddField(synthetic, "label", DTYPE_INT64, {}, 10);
  for (int type = DTYPE_UINT8; type <= DTYPE_UINT16; ++type) {
    AddField(synthetic, "x" + std::to_string(type), static_cast<DType>(type),
             {33});
  }
  return synthetic;
}

std::shared_ptr<const RecordSource> MustMake(const Synthetic& synthetic) {
  auto source = NewSyntheticSource(synthetic);
  EXPECT_TRUE(source.ok()) << source.status();
  return *source;
}

std::unique_ptr<RecordReader> Reader(const RecordSource& source) {
  auto reader = source.NewReader();
  EXPECT_TRUE(reader.ok()) << reader.status();
  return *std::move(reader);
}

Sample ReadOne(RecordReader& reader, int64_t index) {
  Sample fields;
  const absl::Status status =
      reader.Read(index, [&](const EncodedSample& sample) {
        EXPECT_EQ(sample.row, index);
        for (const auto& field : sample.fields) {
          fields.emplace_back(field.begin(), field.end());
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return fields;
}

TEST(SyntheticSourceTest, DescribesItselfAsADatasetOfThatManySamples) {
  const auto source = MustMake(EveryType(12));
  const DatasetInfo& info = source->info();
  EXPECT_EQ(info.name(), "synthetic");
  EXPECT_EQ(info.format(), "synthetic");
  EXPECT_EQ(info.samples(), 12);
  EXPECT_EQ(info.schema().fields_size(), 13);
  EXPECT_EQ(info.schema().fields(1).num_classes(), 10);
  EXPECT_EQ(info.fingerprint().size(), 32);
  ASSERT_EQ(info.shards_size(), 1);
  EXPECT_EQ(info.shards(0).samples(), 12);
}

TEST(SyntheticSourceTest, EverySampleFitsTheSchema) {
  const auto source = MustMake(EveryType(100));
  const auto check = SampleCheck::Create(source->info().schema());
  ASSERT_TRUE(check.ok()) << check.status();
  const auto reader = Reader(*source);
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(reader
                    ->Read(i,
                           [&](const EncodedSample& sample) {
                             return check->Check(sample.fields);
                           })
                    .ok())
        << i;
  }
}

// Computed from the formula of synthetic_values.h by a program in another
// language. The digits hold the contents of 10^12 samples in their place: a
// change is a change of what every server answers, and needs a new
// content_revision.
TEST(SyntheticSourceTest, ContentsAreFixedForEver) {
  Synthetic synthetic;
  synthetic.set_samples(kMaxSyntheticSamples);
  synthetic.set_seed(1);
  AddField(synthetic, "image", DTYPE_UINT8, {2, 2, 3});
  AddField(synthetic, "label", DTYPE_INT64, {}, 1000);
  AddField(synthetic, "weight", DTYPE_FLOAT32, {2});
  const auto source = MustMake(synthetic);
  const auto reader = Reader(*source);
  const auto text = [&](int64_t index) {
    const Sample sample = ReadOne(*reader, index);
    std::string all;
    for (const unsigned char c : sample[0]) {
      all += std::to_string(c) + " ";
    }
    int64_t label;
    std::memcpy(&label, sample[1].data(), sizeof(label));
    float weights[2];
    std::memcpy(weights, sample[2].data(), sizeof(weights));
    return all + "| " + std::to_string(label) + " | " +
           std::to_string(weights[0]) + " " + std::to_string(weights[1]);
  };
  EXPECT_EQ(text(0),
            "195 141 0 43 233 89 102 195 2 16 29 174 | 24 | 0.441406 0.972656");
  EXPECT_EQ(text(999'999'999'999),
            "2 117 77 31 67 87 58 67 141 154 190 91 | 48 | 0.945312 0.089844");
  EXPECT_EQ(source->info().fingerprint(), "eb3f80fa01d55c66480e124277bb3531");
}

TEST(SyntheticSourceTest, SamplesDoNotDependOnReaderOrderOrSource) {
  const auto source = MustMake(EveryType(64));
  const auto other = MustMake(EveryType(64));
  std::vector<Sample> expected;
  {
    const auto reader = Reader(*source);
    for (int64_t i = 0; i < 64; ++i) expected.push_back(ReadOne(*reader, i));
  }
  std::vector<std::vector<Sample>> got(4, std::vector<Sample>(64));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto reader = Reader(t % 2 == 0 ? *source : *other);
      // Each thread in an order of its own.
      for (int64_t i = 0; i < 64; ++i) {
        const int64_t index = i * (2 * t + 1) % 64;
        got[t][index] = ReadOne(*reader, index);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) EXPECT_EQ(got[t], expected) << t;
}

TEST(SyntheticSourceTest, SamplesAndFieldsDiffer) {
  Synthetic synthetic;
  synthetic.set_samples(200);
  AddField(synthetic, "a", DTYPE_UINT8, {64});
  AddField(synthetic, "b", DTYPE_UINT8, {64});
  AddField(synthetic, "c", DTYPE_FLOAT32, {64});
  const auto source = MustMake(synthetic);
  const auto reader = Reader(*source);
  std::set<std::string> seen;
  for (int64_t i = 0; i < 200; ++i) {
    for (const std::string& field : ReadOne(*reader, i)) seen.insert(field);
  }
  // 400 windows out of 65,536 meet about once; the rest never.
  EXPECT_GT(seen.size(), 590u);
}

TEST(SyntheticSourceTest, ClassesAreAllMetAndNoOther) {
  Synthetic synthetic;
  synthetic.set_samples(2000);
  AddField(synthetic, "label", DTYPE_INT64, {}, 10);
  const auto source = MustMake(synthetic);
  const auto reader = Reader(*source);
  std::vector<int> counts(10);
  for (int64_t i = 0; i < 2000; ++i) {
    int64_t label;
    std::memcpy(&label, ReadOne(*reader, i)[0].data(), sizeof(label));
    ASSERT_GE(label, 0);
    ASSERT_LT(label, 10);
    ++counts[label];
  }
  for (const int count : counts) EXPECT_NEAR(count, 200, 70);
}

TEST(SyntheticSourceTest, ASampleThatIsNotThereIsOutOfRange) {
  const auto source = MustMake(EveryType(3));
  const auto reader = Reader(*source);
  const auto visit = [](const EncodedSample&) { return absl::OkStatus(); };
  EXPECT_TRUE(absl::IsOutOfRange(reader->Read(3, visit)));
  EXPECT_TRUE(absl::IsOutOfRange(reader->Read(-1, visit)));
}

TEST(SyntheticSourceTest, WhatTheVisitorReturnsIsReturned) {
  const auto source = MustMake(EveryType(3));
  const auto reader = Reader(*source);
  EXPECT_TRUE(absl::IsAborted(reader->Read(
      1, [](const EncodedSample&) { return absl::AbortedError("no"); })));
}

TEST(SyntheticSourceTest, AReaderOutlivesItsSource) {
  auto source = MustMake(EveryType(3));
  const auto reader = Reader(*source);
  const Sample before = ReadOne(*reader, 2);
  source.reset();
  EXPECT_EQ(ReadOne(*reader, 2), before);
}

TEST(SyntheticSourceTest, ALatencyIsWaitedOutAndChangesNoByte) {
  Synthetic synthetic = EveryType(3);
  const auto fast = MustMake(synthetic);
  synthetic.set_latency_us(20'000);
  const auto slow = MustMake(synthetic);
  EXPECT_EQ(slow->info().fingerprint(), fast->info().fingerprint());
  const auto reader = Reader(*slow);
  const auto start = std::chrono::steady_clock::now();
  const Sample sample = ReadOne(*reader, 1);
  // At least: a wait has no upper bound.
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(20));
  EXPECT_EQ(sample, ReadOne(*Reader(*fast), 1));
}

TEST(SyntheticSourceTest, TheFingerprintFollowsFromTheContents) {
  const std::string base = MustMake(EveryType(3))->info().fingerprint();
  EXPECT_EQ(MustMake(EveryType(3))->info().fingerprint(), base);
  EXPECT_NE(MustMake(EveryType(4))->info().fingerprint(), base);
  Synthetic other = EveryType(3);
  other.set_seed(6);
  EXPECT_NE(MustMake(other)->info().fingerprint(), base);
  other = EveryType(3);
  other.mutable_fields(0)->set_name("picture");
  EXPECT_NE(MustMake(other)->info().fingerprint(), base);
  other = EveryType(3);
  other.mutable_fields(0)->set_shape(0, 8);
  EXPECT_NE(MustMake(other)->info().fingerprint(), base);
}

TEST(SyntheticSourceTest, RefusesWhatPassesABound) {
  const auto refused = [](const std::function<void(Synthetic&)>& change) {
    Synthetic synthetic = EveryType(3);
    change(synthetic);
    const auto source = NewSyntheticSource(synthetic);
    EXPECT_TRUE(absl::IsInvalidArgument(source.status())) << source.status();
    return std::string(source.status().message());
  };
  EXPECT_THAT(refused([](Synthetic& s) { s.set_samples(0); }),
              HasSubstr("has 0 samples; it must have 1 .. 1000000000000"));
  EXPECT_THAT(
      refused([](Synthetic& s) { s.set_samples(kMaxSyntheticSamples + 1); }),
      HasSubstr("1000000000001 samples"));
  EXPECT_THAT(refused([](Synthetic& s) { s.clear_fields(); }),
              HasSubstr("0 fields; it must have 1 .. 16"));
  EXPECT_THAT(refused([](Synthetic& s) {
                for (int i = 0; i < 4; ++i)
                  AddField(s, std::string(i + 1, 'y'), DTYPE_UINT8);
              }),
              HasSubstr("17 fields"));
  EXPECT_THAT(refused([](Synthetic& s) { s.mutable_fields(0)->clear_name(); }),
              HasSubstr("has no name"));
  EXPECT_THAT(
      refused([](Synthetic& s) { s.mutable_fields(0)->set_name("label"); }),
      HasSubstr("two synthetic fields have the name \"label\""));
  EXPECT_THAT(refused([](Synthetic& s) { s.mutable_fields(0)->clear_dtype(); }),
              HasSubstr("no element type"));
  EXPECT_THAT(
      refused([](Synthetic& s) { s.mutable_fields(0)->set_shape(1, -1); }),
      HasSubstr("a dimension of -1"));
  EXPECT_THAT(refused([](Synthetic& s) {
                s.mutable_fields(0)->set_shape(0, int64_t{1} << 62);
              }),
              HasSubstr("larger than the maximum of 8388608 bytes"));
  EXPECT_THAT(refused([](Synthetic& s) {
                AddField(s, "features", DTYPE_FLOAT32, {1 << 16});
              }),
              HasSubstr("the maximum is 262144"));
  EXPECT_THAT(
      refused([](Synthetic& s) { s.mutable_fields(1)->set_num_classes(-2); }),
      HasSubstr("-2 classes"));
  EXPECT_THAT(
      refused([](Synthetic& s) { s.mutable_fields(0)->set_num_classes(2); }),
      HasSubstr("int64 without a shape"));
  EXPECT_THAT(refused([](Synthetic& s) { s.set_latency_us(1'000'001); }),
              HasSubstr("the maximum is 1000000"));
  EXPECT_THAT(refused([](Synthetic& s) { s.set_ready_batches(65); }),
              HasSubstr("the maximum is 64"));
  EXPECT_THAT(refused([](Synthetic& s) {
                s.set_ready_batches(4);
                s.set_latency_us(1);
              }),
              HasSubstr("cannot be used together"));
}

TEST(SyntheticValuesTest, FloatsLieInTheUnitIntervalInEveryType) {
  std::vector<uint8_t> bytes(8 * 512);
  const auto floats = [&](DType dtype, size_t size, auto read) {
    std::set<double> values;
    FillSynthetic(dtype, 0, 9, absl::MakeSpan(bytes.data(), 512 * size));
    for (size_t i = 0; i < 512; ++i) {
      const double value = read(bytes.data() + size * i);
      EXPECT_GE(value, 0);
      EXPECT_LT(value, 1);
      values.insert(value);
    }
    return values;
  };
  const auto bits16 = [](const uint8_t* at) {
    uint16_t value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  const auto f32 = floats(DTYPE_FLOAT32, 4, [](const uint8_t* at) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  });
  EXPECT_GT(f32.size(), 150u);
  EXPECT_EQ(f32, floats(DTYPE_FLOAT64, 8, [](const uint8_t* at) {
              double value;
              std::memcpy(&value, at, sizeof(value));
              return value;
            }));
  EXPECT_EQ(f32, floats(DTYPE_FLOAT16, 2, [&](const uint8_t* at) {
              return HalfToFloat(bits16(at));
            }));
  EXPECT_EQ(f32, floats(DTYPE_BFLOAT16, 2, [&](const uint8_t* at) {
              return Bfloat16ToFloat(bits16(at));
            }));
}

TEST(SyntheticValuesTest, BoolsAreZeroAndOne) {
  std::vector<uint8_t> bytes(256);
  FillSynthetic(DTYPE_BOOL, 0, 9, absl::MakeSpan(bytes));
  EXPECT_EQ(std::set<uint8_t>(bytes.begin(), bytes.end()),
            (std::set<uint8_t>{0, 1}));
}

TEST(SyntheticValuesTest, ClassesFitTheTypesThatLabelsTravelIn) {
  std::vector<uint8_t> bytes(2 * 256);
  FillSynthetic(DTYPE_INT16, 10, 9, absl::MakeSpan(bytes));
  for (size_t i = 0; i < 256; ++i) {
    int16_t value;
    std::memcpy(&value, bytes.data() + 2 * i, sizeof(value));
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 10);
  }
}

TEST(SyntheticValuesTest, LengthsThatAreNoMultipleOfAWordArePrefixes) {
  std::vector<uint8_t> whole(64), part(61, 0xee);
  FillSynthetic(DTYPE_UINT8, 0, 3, absl::MakeSpan(whole));
  FillSynthetic(DTYPE_UINT8, 0, 3, absl::MakeSpan(part.data(), 59));
  EXPECT_TRUE(std::equal(part.begin(), part.begin() + 59, whole.begin()));
  EXPECT_EQ(part[59], 0xee);
}

}  // namespace
}  // namespace millrace::storage
