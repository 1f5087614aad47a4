#include "server/data_tool/image_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/images/jpeg_writer.h"

namespace millrace::data_tool {
namespace {

using ::testing::HasSubstr;

ImageCheck::Fetch Bytes(std::string bytes) {
  return [bytes = std::move(bytes)] { return bytes; };
}

std::string Jpeg(bool progressive, uint64_t seed) {
  JpegKind kind;
  kind.progressive = progressive;
  const std::vector<uint8_t> jpeg = WriteJpeg(kind, seed);
  return {jpeg.begin(), jpeg.end()};
}

// As the server decodes it when all of it is wanted.
bool DecodesAtFullSize(const std::string& bytes) {
  decode::ImageDecoder decoder;
  const auto header = decoder.Open(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, false);
  if (!header.ok()) return false;
  decode::DecodeRegion region;
  region.width = header->width;
  region.height = header->height;
  return decoder.Decode(region).ok();
}

// Decoding at 1/8 sees what decoding at 1/1 does, wherever a file was cut.
TEST(ImageCheck, FindsEveryCutThatAFullDecodeFinds) {
  for (const bool progressive : {false, true}) {
    const std::string whole = Jpeg(progressive, 3);
    ASSERT_TRUE(DecodesAtFullSize(whole));
    ImageCheck check(3, nullptr);
    std::vector<int64_t> expected;
    for (size_t size = 0; size <= whole.size(); size += 13) {
      const std::string cut = whole.substr(0, size);
      const auto number = static_cast<int64_t>(size);
      if (!DecodesAtFullSize(cut)) expected.push_back(number);
      check.Add(number, Bytes(cut));
    }
    check.Add(1 << 30, Bytes(whole));
    std::vector<int64_t> found;
    for (const ImageCheck::Bad& bad : check.Finish()) {
      found.push_back(bad.number);
      EXPECT_FALSE(bad.status.message().empty());
    }
    EXPECT_EQ(found, expected);
    EXPECT_GT(expected.size(), whole.size() / 13 * 9 / 10);
  }
}

TEST(ImageCheck, ListsByNumberWhateverTheThreads) {
  for (const uint32_t threads : {1u, 4u}) {
    ImageCheck check(threads, nullptr);
    for (int i = 0; i < 200; ++i) {
      if (i % 50 == 7) {
        check.Add(i, [] { return absl::NotFoundError("gone"); });
      } else if (i % 50 == 9) {
        check.Add(i, Bytes("no image"));
      } else {
        check.Add(i, Bytes(Jpeg(i % 2 == 0, i)));
      }
    }
    const std::vector<ImageCheck::Bad> bad = check.Finish();
    ASSERT_EQ(bad.size(), 8u);
    for (size_t i = 0; i < bad.size(); ++i) {
      EXPECT_EQ(bad[i].number,
                static_cast<int64_t>(50 * (i / 2) + 7 + i % 2 * 2));
    }
    EXPECT_THAT(std::string(bad[0].status.message()), HasSubstr("gone"));
  }
}

}  // namespace
}  // namespace millrace::data_tool
