// Streams of each codec, whole, joined, cut off and damaged.

#include "server/storage/unpack/codec_unpacker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/storage/unpack/new_decompressor.h"
#include "tests/server/storage/unpack/unpack_testing.h"

namespace millrace::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CodecUnpackerTest : public ::testing::TestWithParam<Codec> {
 protected:
  const Unpacker& unpacker() const { return CodecUnpacker(GetParam()); }
};

TEST_P(CodecUnpackerTest, GivesBackWhatWasCompressed) {
  for (const std::string& text : {std::string(), std::string("x"), LongText(),
                                  std::string(3 << 20, 'a')}) {
    const auto raw = UnpackText(unpacker(), Compress(GetParam(), text));
    ASSERT_TRUE(raw.ok()) << raw.status();
    EXPECT_TRUE(*raw == text) << raw->size() << " " << text.size();
  }
}

// The output of one step may have any size.
TEST_P(CodecUnpackerTest, StepsMayBeSmall) {
  const std::string text = LongText(3000);
  const std::string packed = Compress(GetParam(), text);
  auto stream = *NewDecompressor(GetParam());
  std::string raw;
  bool ended = false;
  for (size_t at = 0; !ended;) {
    uint8_t out[7];
    const size_t bytes = std::min<size_t>(5, packed.size() - at);
    const auto step = stream->Run(
        {reinterpret_cast<const uint8_t*>(packed.data()) + at, bytes},
        absl::MakeSpan(out));
    ASSERT_TRUE(step.ok()) << step.status();
    ASSERT_LE(step->taken, bytes);
    at += step->taken;
    raw.append(reinterpret_cast<const char*>(out), step->made);
    ended = step->ended;
    ASSERT_LE(raw.size(), text.size());
  }
  EXPECT_TRUE(raw == text);
}

TEST_P(CodecUnpackerTest, AFileThatWasCutOffIsRefusedAtEachPlace) {
  const std::string packed = Compress(GetParam(), LongText(300));
  for (size_t bytes = 0; bytes < packed.size(); ++bytes) {
    const auto raw = UnpackText(unpacker(), packed.substr(0, bytes));
    ASSERT_TRUE(absl::IsDataLoss(raw.status())) << bytes << raw.status();
    ASSERT_TRUE(absl::StartsWith(raw.status().message(), "byte "))
        << raw.status();
  }
  EXPECT_THAT(
      std::string(UnpackText(unpacker(), packed.substr(0, packed.size() / 2))
                      .status()
                      .message()),
      AllOf(HasSubstr(absl::StrCat("byte ", packed.size() / 2)),
            HasSubstr("it was cut off")));
}

TEST_P(CodecUnpackerTest, DamageEndsWithAnErrorOrOtherBytesAndNeverOtherwise) {
  const std::string text = LongText(300);
  const std::string packed = Compress(GetParam(), text);
  int noticed = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    std::string damaged = packed;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    const auto raw = UnpackText(unpacker(), damaged);
    if (raw.ok()) continue;
    ++noticed;
    ASSERT_TRUE(absl::IsDataLoss(raw.status())) << i << raw.status();
    ASSERT_TRUE(absl::StartsWith(raw.status().message(), "byte "))
        << raw.status();
  }
  EXPECT_GT(noticed, 0);
}

TEST_P(CodecUnpackerTest, JoinedFilesAreReadAsTheProgramsDo) {
  const std::string packed =
      Compress(GetParam(), "one ") + Compress(GetParam(), LongText(100));
  const auto raw = UnpackText(unpacker(), packed);
  if (GetParam() == Codec::kBrotli || GetParam() == Codec::kSnappy) {
    EXPECT_THAT(std::string(raw.status().message()),
                HasSubstr("bytes follow the end of the compressed stream"));
    return;
  }
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_EQ(*raw, "one " + LongText(100));
  EXPECT_TRUE(
      absl::IsDataLoss(UnpackText(unpacker(), packed + "rest").status()));
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecUnpackerTest,
                         ::testing::Values(Codec::kZstd, Codec::kGzip,
                                           Codec::kBzip2, Codec::kBrotli,
                                           Codec::kSnappy),
                         [](const auto& codec) {
                           return std::string(CodecName(codec.param));
                         });

TEST(CodecUnpackerNamedTest, TakesTheNamesOfMds) {
  EXPECT_EQ(CodecUnpackerNamed("zstd:7"), &CodecUnpacker(Codec::kZstd));
  EXPECT_EQ(CodecUnpackerNamed("gz"), &CodecUnpacker(Codec::kGzip));
  EXPECT_EQ(CodecUnpackerNamed("bz2:9"), &CodecUnpacker(Codec::kBzip2));
  EXPECT_EQ(CodecUnpackerNamed("br:11"), &CodecUnpacker(Codec::kBrotli));
  EXPECT_EQ(CodecUnpackerNamed("snappy"), &CodecUnpacker(Codec::kSnappy));
  EXPECT_EQ(CodecUnpackerNamed("lz4"), nullptr);
  EXPECT_EQ(CodecUnpackerNamed(""), nullptr);
}

// Made by hand: length 5, a literal of 1, then a copy of 4 from `offset`
// before.
std::string SnappyCopy(uint8_t length, uint32_t offset) {
  std::string stream = {static_cast<char>(length), 0, 'a',
                        static_cast<char>(3 << 2 | 3)};
  for (int i = 0; i < 4; ++i) {
    stream.push_back(static_cast<char>(offset >> (8 * i)));
  }
  return stream;
}

TEST(SnappyTest, CopiesAreChecked) {
  const Unpacker& snappy = CodecUnpacker(Codec::kSnappy);
  EXPECT_EQ(*UnpackText(snappy, SnappyCopy(5, 1)), "aaaaa");
  for (const uint32_t offset : {0U, 2U, 0xFFFFFFFFU}) {
    EXPECT_THAT(
        std::string(
            UnpackText(snappy, SnappyCopy(5, offset)).status().message()),
        HasSubstr("byte 0: the snappy stream is damaged: it copies bytes from "
                  "before its beginning"));
  }
  EXPECT_THAT(
      std::string(UnpackText(snappy, SnappyCopy(4, 1)).status().message()),
      HasSubstr("more than the 4 bytes that it claims"));
  EXPECT_TRUE(absl::IsDataLoss(
      UnpackText(snappy, "\xFF\xFF\xFF\xFF\xFF\xFF").status()));
}

}  // namespace
}  // namespace millrace::storage
