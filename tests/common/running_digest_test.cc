#include "common/running_digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "xxhash.h"

namespace millrace {
namespace {

// However the bytes come, also in pieces that are smaller and larger than the
// blocks of the algorithm.
TEST(RunningDigestTest, IsThatOfAllBytesTogether) {
  std::string bytes;
  for (int i = 0; i < 10'000; ++i) bytes.push_back(static_cast<char>(i * 7));
  RunningDigest digest;
  for (const size_t piece : {1, 17, 256, 1024, 4096, 10'000}) {
    digest.Clear();
    for (size_t at = 0; at < bytes.size(); at += piece) {
      digest.Add(bytes.data() + at, std::min(piece, bytes.size() - at));
      ASSERT_EQ(digest.Value(),
                XXH3_64bits(bytes.data(), std::min(at + piece, bytes.size())))
          << at << " of pieces of " << piece;
    }
  }
}

TEST(RunningDigestTest, OfNothingIsThatOfNothing) {
  RunningDigest digest;
  EXPECT_EQ(digest.Value(), XXH3_64bits("", 0));
  digest.Add(nullptr, 0);
  EXPECT_EQ(digest.Value(), XXH3_64bits("", 0));
}

}  // namespace
}  // namespace millrace
