// What the decoders make of the built-in images, and how it is used.

#include "server/decode/decoder_digest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "server/decode/fast_entropy.h"
#include "server/decode/image_decoder.h"
#include "server/decode/jpeg_entropy_check.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace::decode {
namespace {

absl::Span<const uint8_t> BytesOf(const ProbeImage& image) {
  return {reinterpret_cast<const uint8_t*>(image.bytes.data()),
          image.bytes.size()};
}

TEST(DecoderDigest, IsThatOfTheLibrariesOnDebian12) {
  const auto digest = DecoderDigest();
  ASSERT_TRUE(digest.ok()) << digest.status();
  // A library that makes other pixels changes it, and so splits servers: that
  // is what it is for. libjpeg-turbo 2.1.5, libpng 1.6.39, libwebp 1.2.4.
  EXPECT_EQ(*digest, "b0b5a0ab043e9e2397c8a5b48d57a618");
  EXPECT_EQ(*DecoderDigest(), *digest);
}

TEST(DecoderDigest, EveryImageCountsWithEveryPixel) {
  std::vector<ProbeImage> images(ProbeImages().begin(), ProbeImages().end());
  const auto all = DigestOf(images);
  ASSERT_TRUE(all.ok()) << all.status();
  for (size_t i = 0; i < images.size(); ++i) {
    SCOPED_TRACE(images[i].name);
    std::vector<ProbeImage> fewer = images;
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
    const auto without = DigestOf(fewer);
    ASSERT_TRUE(without.ok()) << without.status();
    EXPECT_NE(*without, *all);
    // A picture of its own kind.
    ImageDecoder decoder;
    const auto header = decoder.Open(BytesOf(images[i]), true);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_GT(header->width * header->height, 70);
  }
}

TEST(DecoderDigest, AnImageThatIsNotDecodedIsNamed) {
  std::vector<ProbeImage> images(ProbeImages().begin(), ProbeImages().end());
  images[3].bytes.resize(images[3].bytes.size() / 2);
  const auto digest = DigestOf(images);
  EXPECT_EQ(digest.status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(digest.status().message(), images[3].name))
      << digest.status();
}

TEST(JpegEntropyCheck, TheLoadedLibraryIsOneThatFastEntropyKnows) {
  EXPECT_TRUE(CheckFastEntropy().ok()) << CheckFastEntropy();
  EXPECT_EQ(CheckedJpegEntropy(), JpegDecoder::Entropy::kFast);
}

TEST(JpegEntropyCheck, LibjpegsOwnDecoderIsUsedWhereItIsAskedFor) {
  const std::vector<uint8_t> jpeg = WriteJpeg({}, 1);
  for (const auto entropy :
       {JpegDecoder::Entropy::kLibrary, JpegDecoder::Entropy::kFast}) {
    JpegDecoder decoder(entropy);
    const auto header = decoder.Open(jpeg, false);
    ASSERT_TRUE(header.ok()) << header.status();
    ASSERT_TRUE(
        decoder.Decode({1, 0, 0, header->width, header->height, 3}).ok());
    EXPECT_EQ(decoder.used_fast_entropy(),
              entropy == JpegDecoder::Entropy::kFast);
  }
}

TEST(JpegEntropyCheck, OtherPixelsAreNoticed) {
  JpegDecoder library(JpegDecoder::Entropy::kLibrary);
  JpegDecoder fast(JpegDecoder::Entropy::kFast);
  const std::vector<uint8_t> jpeg = WriteJpeg({}, 1);
  EXPECT_TRUE(SameJpegPixels("JPEG", jpeg, library, fast).ok());
  // Bytes that one of them takes for damage.
  std::vector<uint8_t> cut = jpeg;
  cut.resize(cut.size() / 2);
  const absl::Status damaged = SameJpegPixels("JPEG", cut, library, fast);
  EXPECT_EQ(damaged.code(), absl::StatusCode::kInternal) << damaged;
}

// What a library with another private struct would show.
TEST(FastEntropy, KnowsWhatTheStructLooksLike) {
  struct Words {
    const void* word[4];
  };
  jpeg_memory_mgr memory = {};
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors;
  // Functions of the loaded library: their addresses stand in public structs.
  jpeg_decompress_struct real = {};
  real.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&real);
  const auto code = reinterpret_cast<const void*>(real.mem->free_pool);
  memory.free_pool = real.mem->free_pool;
  info.mem = &memory;
  const auto known = [&](const Words& words) {
    info.entropy =
        reinterpret_cast<jpeg_entropy_decoder*>(const_cast<Words*>(&words));
    return FastEntropy::LayoutIsKnown(info);
  };
  static const int data = 0;
  EXPECT_TRUE(known({code, code, nullptr, code}));
  EXPECT_FALSE(known({code, code, code, code}));  // a third function
  EXPECT_FALSE(known({nullptr, code, nullptr, code}));
  EXPECT_FALSE(known({code, nullptr, nullptr, code}));
  EXPECT_FALSE(known({&data, code, nullptr, code}));
  EXPECT_FALSE(known({code, &data, nullptr, code}));
  EXPECT_FALSE(known({code, code, reinterpret_cast<const void*>(1), code}));
  info.entropy = nullptr;
  EXPECT_FALSE(FastEntropy::LayoutIsKnown(info));
  jpeg_destroy_decompress(&real);
}

}  // namespace
}  // namespace millrace::decode
