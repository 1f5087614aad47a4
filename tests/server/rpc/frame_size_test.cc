// How frames grow and shrink by the time that they take.

#include "server/rpc/frame_size.h"

#include <gtest/gtest.h>

#include <chrono>

namespace millrace::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(FrameSizeTest, FramesThatGoThroughAreLarge) {
  FrameSize size;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(size.bytes(), wire::kFrameDataBytes);
    size.Note(milliseconds(i == 1 ? 500 : 5));
  }
}

// A link of 85 kB/s that becomes one of 14: no frame takes as long as a write
// may.
TEST(FrameSizeTest, ASlowLinkFinishesAFrameInTime) {
  FrameSize size;
  for (int i = 0; i < 100; ++i) {
    const uint64_t rate = i < 5 ? 85'000 : 14'000;
    const seconds took(size.bytes() / rate);
    EXPECT_LT(took, seconds(10)) << i;
    size.Note(took);
  }
  EXPECT_EQ(size.bytes(), FrameSize::kMinBytes);
  for (int i = 0; i < 3; ++i) size.Note(milliseconds(5));
  EXPECT_EQ(size.bytes(), wire::kFrameDataBytes);
}

}  // namespace
}  // namespace millrace::rpc
