// Pauses of the process, by times that are given.

#include "server/rpc/running_since.h"

#include <gtest/gtest.h>

#include <chrono>

namespace millrace::rpc {
namespace {

using std::chrono::seconds;

const SteadyTime kStart{seconds(1000)};

TEST(RunningSinceTest, ALateLookIsNoPause) {
  RunningSince running(seconds(1), kStart);
  EXPECT_EQ(running.Look(kStart + seconds(1)), kStart);
  EXPECT_EQ(running.Look(kStart + seconds(3)), kStart);
  EXPECT_EQ(running.Look(kStart + seconds(4)), kStart);
}

// What was under way before a pause is given its time again after it.
TEST(RunningSinceTest, TimeStartsAgainAfterAPause) {
  RunningSince running(seconds(1), kStart);
  EXPECT_EQ(running.Look(kStart + seconds(1)), kStart);
  const SteadyTime awake = kStart + seconds(60);
  EXPECT_EQ(running.Look(awake), awake);
  EXPECT_EQ(running.Look(awake + seconds(1)), awake);
  EXPECT_EQ(running.Look(awake + seconds(11)), awake + seconds(11));
}

}  // namespace
}  // namespace millrace::rpc
