#include "server/decode/seek_index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::decode {
namespace {

using Bytes = std::vector<uint8_t>;

// A scan of `intervals` with some stuffed FF in its data; where each begins.
Bytes Scan(int intervals, std::vector<size_t>* begins) {
  Bytes scan;
  for (int i = 0; i < intervals; ++i) {
    begins->push_back(scan.size());
    for (int n = 0; n < 1 + i * 37 % 500; ++n) {
      const uint8_t byte = static_cast<uint8_t>(n * 41 + i * 3);
      scan.push_back(byte);
      if (byte == 0xFF) scan.push_back(0);
    }
    scan.push_back(0xFF);
    scan.push_back(i + 1 == intervals ? 0xD9 : 0xD0 + i % 8);
  }
  return scan;
}

absl::Span<const uint8_t> AsBytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(SeekIndex, FindsEveryInterval) {
  for (int intervals : {1, 2, 8, 9, 40, 300}) {
    std::vector<size_t> begins;
    const Bytes scan = Scan(intervals, &begins);
    const std::string index = SeekIndexOf(scan);
    ASSERT_TRUE(IsSeekIndex(AsBytes(index)));
    for (int i = 0; i < intervals; ++i) {
      EXPECT_EQ(FindInterval(AsBytes(index), scan, intervals, i), begins[i]);
    }
  }
}

TEST(SeekIndex, IsOfNoScanThatDoesNotEndWithItsEndMarker) {
  std::vector<size_t> begins;
  const Bytes scan = Scan(5, &begins);
  for (size_t size = 0; size < scan.size(); ++size) {
    EXPECT_EQ(SeekIndexOf({scan.data(), size}), "") << size;
  }
  Bytes more = scan;
  more.push_back(0);
  EXPECT_EQ(SeekIndexOf(more), "");
  Bytes skipped = scan;  // a restart marker of a wrong number
  skipped[begins[2] - 1] ^= 4;
  EXPECT_EQ(SeekIndexOf(skipped), "");
}

TEST(SeekIndex, AnswersRightOrNotAtAllWhateverTheIndexSays) {
  constexpr int kIntervals = 20;
  std::vector<size_t> begins;
  const Bytes scan = Scan(kIntervals, &begins);
  const std::string right = SeekIndexOf(scan);
  // Cut anywhere.
  for (size_t size = 0; size < right.size(); ++size) {
    EXPECT_EQ(
        FindInterval(AsBytes(right).subspan(0, size), scan, kIntervals, 3),
        std::nullopt);
  }
  EXPECT_EQ(FindInterval(AsBytes(right + '\1'), scan, kIntervals, 3),
            std::nullopt);
  // Every byte with every value.
  for (size_t at = 0; at < right.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string wrong = right;
      wrong[at] = static_cast<char>(value);
      if (wrong == right) continue;
      EXPECT_EQ(FindInterval(AsBytes(wrong), scan, kIntervals, 19),
                std::nullopt)
          << "byte " << at << " = " << value;
    }
  }
  // Of an image with other intervals.
  for (int intervals : {1, 19, 21}) {
    EXPECT_EQ(FindInterval(AsBytes(right), scan, intervals, 0), std::nullopt);
  }
}

TEST(SeekIndex, EightIntervalsFurtherIsAnotherInterval) {
  // The marker's number is the same there: only the count of all tells.
  constexpr int kIntervals = 20;
  std::vector<size_t> begins;
  const Bytes scan = Scan(kIntervals, &begins);
  std::vector<size_t> other;
  // One that passes over intervals 3 .. 10 and is else right.
  Bytes fewer(scan.begin(), scan.begin() + begins[3]);
  fewer.insert(fewer.end(), scan.begin() + begins[11], scan.end());
  const std::string index = SeekIndexOf(fewer);
  ASSERT_NE(index, "");
  for (int wanted : {2, 5, 11}) {
    EXPECT_EQ(FindInterval(AsBytes(index), scan, kIntervals, wanted),
              std::nullopt);
    EXPECT_EQ(FindInterval(AsBytes(index), scan, kIntervals - 8, wanted),
              std::nullopt);
  }
}

TEST(SeekIndex, AStaleOneIsNotBelieved) {
  std::vector<size_t> begins;
  const Bytes scan = Scan(12, &begins);
  const std::string index = SeekIndexOf(scan);
  Bytes longer = scan;
  longer.insert(longer.begin() + begins[4] + 1, 7);
  EXPECT_EQ(FindInterval(AsBytes(index), longer, 12, 2), std::nullopt);
  Bytes behind = scan;
  behind.push_back(0);
  EXPECT_EQ(FindInterval(AsBytes(index), behind, 12, 2), std::nullopt);
}

}  // namespace
}  // namespace millrace::decode
