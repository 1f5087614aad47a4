#include "client/prefetch/window_size.h"

#include <gtest/gtest.h>

namespace millrace::prefetch {
namespace {

TEST(WindowSizeTest, FollowsTheSizeOfBatches) {
  LoaderOptions options;
  EXPECT_EQ(ChooseWindow(options, 50'000), 256);
  EXPECT_EQ(ChooseFirstWindow(options, 50'000), 64);
  EXPECT_EQ(ChooseWindow(options, 10 << 20), 25);
  EXPECT_EQ(ChooseFirstWindow(options, 1 << 20), 32);
  EXPECT_EQ(ChooseFirstWindow(options, 10 << 20), 16);
  EXPECT_EQ(ChooseFirstWindow(options, 40 << 20), 6);
  EXPECT_EQ(ChooseWindow(options, uint64_t{1} << 40), 4);
  options.initial_window = 2;
  EXPECT_EQ(ChooseFirstWindow(options, 50'000), 2);
  options.initial_window = 256;
  EXPECT_EQ(ChooseFirstWindow(options, 10 << 20), 25);
  options.initial_window = 0;
  options.window = 7;
  EXPECT_EQ(ChooseWindow(options, 10 << 20), 7);
  EXPECT_EQ(ChooseFirstWindow(options, 10 << 20), 7);
}

TEST(WindowSizeTest, ACheapWindowTakesFourMebibytes) {
  EXPECT_EQ(ChooseCheapWindow(256, 1 << 20), 4);
  EXPECT_EQ(ChooseCheapWindow(3, 1 << 20), 3) << "more than there are slots";
  EXPECT_EQ(ChooseCheapWindow(256, 5 << 20), 0) << "none is cheap";
}

TEST(WindowSizeTest, OneSpareSlotForEachEightOfTheWindowUpToFour) {
  EXPECT_EQ(SpareSlots(2), 1);
  EXPECT_EQ(SpareSlots(16), 2);
  EXPECT_EQ(SpareSlots(1000), 4);
}

}  // namespace
}  // namespace millrace::prefetch
