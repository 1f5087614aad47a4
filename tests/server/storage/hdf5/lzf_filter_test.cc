#include "server/storage/hdf5/lzf_filter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::storage {
namespace {

std::string Decompress(const std::vector<uint8_t>& from, size_t room) {
  std::vector<uint8_t> to(room);
  const size_t bytes = DecompressLzf(from, absl::MakeSpan(to));
  return std::string(to.begin(), to.begin() + static_cast<long>(bytes));
}

TEST(DecompressLzfTest, LiteralsAndCopies) {
  EXPECT_EQ(Decompress({2, 'a', 'b', 'c'}, 3), "abc");
  // Three bytes from three bytes back.
  EXPECT_EQ(Decompress({2, 'a', 'b', 'c', 1 << 5, 2}, 6), "abcabc");
  // A copy that overlaps itself, with a longer length.
  EXPECT_EQ(Decompress({0, 'x', 7 << 5, 3, 0}, 13), std::string(13, 'x'));
}

TEST(DecompressLzfTest, DamageGivesNothing) {
  EXPECT_EQ(Decompress({2, 'a', 'b'}, 3), "");           // cut off
  EXPECT_EQ(Decompress({2, 'a', 'b', 'c'}, 2), "");      // no room
  EXPECT_EQ(Decompress({0, 'x', 1 << 5, 1}, 9), "");     // before the start
  EXPECT_EQ(Decompress({0, 'x', 1 << 5}, 9), "");        // no distance
  EXPECT_EQ(Decompress({0, 'x', 7 << 5}, 9), "");        // no length
  EXPECT_EQ(Decompress({0, 'x', 7 << 5, 9, 0}, 9), "");  // no room for a copy
  EXPECT_EQ(Decompress({}, 9), "");
}

}  // namespace
}  // namespace millrace::storage
