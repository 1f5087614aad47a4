#include "common/bulk_copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace millrace {
namespace {

// Every byte arrives and none beside it changes, wherever lines begin and end.
TEST(BulkCopyTest, CopiesExactlyTheBytesThatItIsGiven) {
  constexpr size_t kMargin = 128;
  for (const size_t bytes : {0, 1, 15, 16, 63, 64, 65, 127, 128, 200, 4099}) {
    std::vector<uint8_t> from(bytes + 64);
    for (size_t i = 0; i < from.size(); ++i) {
      from[i] = static_cast<uint8_t>(i * 7 + 1);
    }
    for (size_t at = 0; at < 65; ++at) {
      for (const size_t skip : {0, 1, 17}) {
        std::vector<uint8_t> to(kMargin + at + bytes + kMargin, 0xee);
        std::vector<uint8_t> expected = to;
        for (size_t i = 0; i < bytes; ++i) {
          expected[kMargin + at + i] = from[skip + i];
        }
        BulkCopy(to.data() + kMargin + at, from.data() + skip, bytes);
        ASSERT_EQ(to, expected) << bytes << " bytes to " << at;
      }
    }
  }
}

}  // namespace
}  // namespace millrace
