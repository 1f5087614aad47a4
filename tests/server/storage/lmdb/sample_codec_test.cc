#include "server/storage/lmdb/sample_codec.h"

#include <gtest/gtest.h>

#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

std::vector<absl::Span<const uint8_t>> Views(
    const std::vector<std::string>& sample) {
  std::vector<absl::Span<const uint8_t>> views;
  for (const std::string& field : sample) {
    views.push_back(
        {reinterpret_cast<const uint8_t*>(field.data()), field.size()});
  }
  return views;
}

class SampleCodecTest : public ::testing::Test {
 protected:
  SampleCodecTest()
      : codec_(*SampleCheck::Create(EveryKindDataset(1).schema())) {}

  std::vector<uint8_t> Encode(const std::vector<std::string>& sample) {
    std::vector<uint8_t> value(codec_.EncodedBytes(Views(sample)));
    codec_.Encode(Views(sample), value.data());
    return value;
  }
  absl::Status Decode(absl::Span<const uint8_t> value,
                      std::vector<std::string>* sample) {
    std::vector<absl::Span<const uint8_t>> views(codec_.fields());
    const absl::Status status = codec_.Decode(value, absl::MakeSpan(views));
    sample->clear();
    for (const auto& view : views) {
      if (status.ok()) sample->emplace_back(view.begin(), view.end());
    }
    return status;
  }
  SampleCodec codec_;
};

TEST_F(SampleCodecTest, ComesBack) {
  for (const auto& sample : EveryKindSamples(10)) {
    std::vector<std::string> back;
    ASSERT_TRUE(Decode(Encode(sample), &back).ok());
    EXPECT_EQ(back, sample);
  }
}

// As docs/formats.md shows it.
TEST_F(SampleCodecTest, FixedFieldsComeFirstThenLengthsAndBytes) {
  const SampleCodec codec(*SampleCheck::Create(ImageDataset(1).schema()));
  const std::vector<std::string> sample = {"JPEG", Scalar<int64_t>(2)};
  std::string value(codec.EncodedBytes(Views(sample)), 0);
  codec.Encode(Views(sample), reinterpret_cast<uint8_t*>(value.data()));
  EXPECT_EQ(value, std::string("\x02\0\0\0\0\0\0\0\x04\0\0\0JPEG", 16));
}

TEST_F(SampleCodecTest, ValuesThatAreCutOrTooLongAreDataLoss) {
  std::vector<uint8_t> value = Encode(EveryKindSamples(4)[3]);
  std::vector<std::string> back;
  for (size_t size = 0; size < value.size(); ++size) {
    // A copy of just that size, so that ASan sees a read behind it.
    const std::vector<uint8_t> cut(value.begin(), value.begin() + size);
    EXPECT_TRUE(absl::IsDataLoss(Decode(cut, &back))) << size;
  }
  value.push_back(0);
  EXPECT_TRUE(absl::IsDataLoss(Decode(value, &back)));
}

}  // namespace
}  // namespace millrace::storage
