// Compressed frames: what is compressed comes back byte for byte, and
// compressed bytes that are damaged or that lie about themselves are refused.

#include "proto/wire/frame_compression.h"

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/frame_encoder.h"
#include "proto/wire/frame_view.h"
#include "tests/testing/wire_samples.h"

namespace millrace::wire {
namespace {

using ::testing::HasSubstr;

// Rows of pixels that change slowly, with a little noise.
std::vector<uint8_t> Picture(size_t bytes) {
  std::mt19937 random(7);
  std::vector<uint8_t> picture(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    picture[i] =
        static_cast<uint8_t>(60 * (i % 3) + i / 50 + (random() % 8 == 0));
  }
  return picture;
}

std::vector<uint8_t> Noise(size_t bytes) {
  std::mt19937 random(9);
  std::vector<uint8_t> noise(bytes);
  for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random());
  return noise;
}

std::string Compressed(const std::vector<uint8_t>& bytes, uint32_t stride) {
  const auto compressed = CompressFrame(bytes, stride);
  EXPECT_TRUE(compressed.has_value());
  if (!compressed.has_value()) return "";
  EXPECT_EQ(compressed->delta_stride, stride);
  return std::string(compressed->data);
}

TEST(FrameCompressionTest, GivesBackWhatWasCompressed) {
  for (size_t bytes : {100, 3000, 256 << 10}) {
    const std::vector<uint8_t> picture = Picture(bytes);
    for (uint32_t stride : {0, 1, 3, 4}) {
      const std::string compressed = Compressed(picture, stride);
      EXPECT_LT(compressed.size(), bytes);
      std::vector<uint8_t> out(bytes, 0xee);
      // In pieces, too.
      for (size_t cut : {size_t{0}, compressed.size() / 3}) {
        const absl::string_view whole = compressed;
        std::vector<absl::string_view> pieces = {whole};
        if (cut > 0) pieces = {whole.substr(0, cut), whole.substr(cut)};
        std::fill(out.begin(), out.end(), 0xee);
        const absl::Status status = DecompressFrame(
            pieces, COMPRESSION_ZSTD, stride, absl::MakeSpan(out));
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_EQ(out, picture) << bytes << " stride " << stride;
      }
    }
  }
}

TEST(FrameCompressionTest, DifferencesCompressPicturesBetter) {
  const std::vector<uint8_t> picture = Picture(64 << 10);
  EXPECT_LT(Compressed(picture, 3).size(), Compressed(picture, 0).size());
}

TEST(FrameCompressionTest, LeavesAloneWhatCompressionDoesNotMakeSmaller) {
  EXPECT_FALSE(CompressFrame(Noise(256 << 10), 0).has_value());
  EXPECT_FALSE(CompressFrame(Noise(256 << 10), 3).has_value());
  EXPECT_FALSE(CompressFrame({}, 0).has_value());
  EXPECT_FALSE(CompressFrame(Noise(5), 0).has_value());
  EXPECT_FALSE(
      CompressFrame(std::vector<uint8_t>(kMaxCompressedFrameBytes + 1), 0)
          .has_value());
}

TEST(FrameCompressionTest, AStrideBeyondTheBytesIsNotUsed) {
  const std::vector<uint8_t> zeros(100, 0);
  const auto compressed = CompressFrame(zeros, 100);
  ASSERT_TRUE(compressed.has_value());
  EXPECT_EQ(compressed->delta_stride, 0);
}

TEST(FrameCompressionTest, RefusesWhatDoesNotDecompressToItsSize) {
  const std::vector<uint8_t> picture = Picture(3000);
  const std::string compressed = Compressed(picture, 3);
  for (size_t bytes : {0, 1, 2999, 3001}) {
    std::vector<uint8_t> out(bytes);
    const absl::Status status =
        DecompressFrame({absl::string_view(compressed)}, COMPRESSION_ZSTD, 3,
                        absl::MakeSpan(out));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bytes;
    EXPECT_THAT(std::string(status.message()), HasSubstr("damaged frame"));
  }
}

TEST(FrameCompressionTest, RefusesDamageOrDecompressesSomethingOfTheRightSize) {
  const std::string compressed = Compressed(Picture(3000), 3);
  std::vector<uint8_t> out(3000);
  for (size_t i = 0; i < compressed.size(); ++i) {
    // Cut short is never whole.
    EXPECT_FALSE(DecompressFrame({absl::string_view(compressed).substr(0, i)},
                                 COMPRESSION_ZSTD, 3, absl::MakeSpan(out))
                     .ok());
    std::string damaged = compressed;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x11);
    // Under a sanitizer a write beside `out` ends the test.
    (void)DecompressFrame({absl::string_view(damaged)}, COMPRESSION_ZSTD, 3,
                          absl::MakeSpan(out));
  }
  EXPECT_FALSE(
      DecompressFrame({}, COMPRESSION_ZSTD, 3, absl::MakeSpan(out)).ok());
}

TEST(FrameCompressionTest, RefusesAWayThatItDoesNotKnow) {
  std::vector<uint8_t> out(3);
  const absl::Status status =
      DecompressFrame({absl::string_view("abc")}, 7, 0, absl::MakeSpan(out));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("method 7,"));
}

TEST(FrameCompressionTest, AnyStrideOfAForeignFrameStaysInside) {
  const std::string compressed = Compressed(Picture(3000), 0);
  std::vector<uint8_t> out(3000);
  for (uint32_t stride : {2999u, 3000u, 3001u, UINT32_MAX}) {
    EXPECT_TRUE(DecompressFrame({absl::string_view(compressed)},
                                COMPRESSION_ZSTD, stride, absl::MakeSpan(out))
                    .ok());
  }
}

TEST(FrameCompressionTest, ThreadsHaveTheirOwnScratch) {
  const std::vector<uint8_t> picture = Picture(100 << 10);
  const std::string expected = Compressed(picture, 3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto compressed = CompressFrame(picture, 3);
        ASSERT_TRUE(compressed.has_value());
        ASSERT_EQ(compressed->data, expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FrameCompressionTest, AFrameCarriesItsCompression) {
  const std::vector<uint8_t> picture = Picture(3000);
  const std::string compressed = Compressed(picture, 3);
  char prefix[kMaxFramePrefixBytes];
  const size_t n = EncodeFramePrefix(5, 100, compressed.size(), prefix,
                                     {COMPRESSION_ZSTD, picture.size(), 3});
  const std::string bytes = std::string(prefix, n) + compressed;

  Frame frame;
  ASSERT_TRUE(frame.ParseFromString(bytes));
  EXPECT_EQ(frame.compression(), COMPRESSION_ZSTD);
  EXPECT_EQ(frame.raw_bytes(), 3000);
  EXPECT_EQ(frame.delta_stride(), 3);

  FrameView view;
  ASSERT_TRUE(ParseFrame({absl::string_view(bytes)}, &view).ok());
  EXPECT_EQ(view.payload_bytes(), 3000);
  std::vector<uint8_t> payload(3100);
  ASSERT_TRUE(CopyFrameData(view, absl::MakeSpan(payload)).ok());
  EXPECT_TRUE(
      std::equal(picture.begin(), picture.end(), payload.begin() + 100));

  // Not where it does not fit, whatever it says.
  payload.resize(3099);
  EXPECT_FALSE(CopyFrameData(view, absl::MakeSpan(payload)).ok());
  view.raw_bytes = UINT64_MAX;
  EXPECT_FALSE(CopyFrameData(view, absl::MakeSpan(payload)).ok());

  // The next frame is not compressed.
  const std::string plain(prefix, EncodeFramePrefix(5, 0, 0, prefix));
  ASSERT_TRUE(ParseFrame({absl::string_view(plain)}, &view).ok());
  EXPECT_EQ(view.compression, COMPRESSION_NONE);
  EXPECT_EQ(view.payload_bytes(), 0);
}

TEST(FrameCompressionTest, PixelsHaveTheStrideOfTheirChannels) {
  EXPECT_EQ(DeltaStrideFor(DTYPE_UINT8, {224, 224, 3}), 3);
  EXPECT_EQ(DeltaStrideFor(DTYPE_UINT8, {28, 28, 1}), 1);
  EXPECT_EQ(DeltaStrideFor(DTYPE_UINT8, {3, 224, 224}), 1);
  EXPECT_EQ(DeltaStrideFor(DTYPE_UINT8, {28, 28}), 1);
  EXPECT_EQ(DeltaStrideFor(DTYPE_UINT8, {1000}), 0);
  EXPECT_EQ(DeltaStrideFor(DTYPE_FLOAT32, {224, 224, 3}), 0);
  EXPECT_EQ(DeltaStrideFor(DTYPE_INT64, {}), 0);
}

}  // namespace
}  // namespace millrace::wire
