// When a server gives memory back, by times and sizes that are made up.

#include "server/rpc/memory_return.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

namespace millrace::rpc {
namespace {

using std::chrono::seconds;

constexpr uint64_t kMiB = 1 << 20;

class MemoryReturnTest : public ::testing::Test {
 protected:
  void Run(int count, bool idle) {
    for (int i = 0; i < count; ++i)
      memory_return_.Look(idle, now_ += seconds(1));
  }

  uint64_t resident_ = 800 * kMiB;
  uint64_t in_use_ = 30 * kMiB;
  int idle_releases_ = 0;
  int busy_releases_ = 0;
  SteadyTime now_{seconds(1000)};
  MemoryReturn memory_return_{{.expected_bytes = 700 * kMiB,
                               .resident = [this] { return resident_; },
                               .in_use = [this] { return in_use_; },
                               .release =
                                   [this](bool idle) {
                                     ++(idle ? idle_releases_ : busy_releases_);
                                     resident_ = idle ? 40 * kMiB : 600 * kMiB;
                                   }}};
};

TEST_F(MemoryReturnTest, GivesBackAfterAFewSecondsWithoutACall) {
  resident_ = 500 * kMiB;
  Run(10, false);
  EXPECT_EQ(busy_releases_, 0);
  Run(3, true);
  EXPECT_EQ(idle_releases_, 0);
  Run(1, true);
  EXPECT_EQ(idle_releases_, 1);
  // Once is enough.
  Run(100, true);
  EXPECT_EQ(idle_releases_, 1);
}

TEST_F(MemoryReturnTest, ACallInBetweenIsWork) {
  resident_ = 500 * kMiB;
  for (int i = 0; i < 10; ++i) {
    Run(3, true);
    Run(1, false);
  }
  EXPECT_EQ(idle_releases_, 0);
}

// Requests that are no calls, and connections that come and go.
TEST_F(MemoryReturnTest, WhatGrowsWithoutCallsIsGivenBackToo) {
  Run(10, true);
  EXPECT_EQ(idle_releases_, 1);
  resident_ += 8 * kMiB;
  Run(10, true);
  EXPECT_EQ(idle_releases_, 1);
  resident_ += 200 * kMiB;
  Run(1, true);
  EXPECT_EQ(idle_releases_, 2);
}

// Connections took memory, an idle server gave back what was free, and then
// they were closed: what they had took as much of the system's memory as
// before.
TEST_F(MemoryReturnTest, WhatIsFreedWithoutCallsIsGivenBackToo) {
  in_use_ = 200 * kMiB;
  Run(10, true);
  EXPECT_EQ(idle_releases_, 1);
  in_use_ -= 8 * kMiB;
  Run(10, true);
  EXPECT_EQ(idle_releases_, 1);
  in_use_ = 30 * kMiB;
  Run(1, true);
  EXPECT_EQ(idle_releases_, 2);
  Run(100, true);
  EXPECT_EQ(idle_releases_, 2);
}

TEST_F(MemoryReturnTest, ABusyServerGivesBackAboveWhatItPromised) {
  Run(1, false);
  EXPECT_EQ(busy_releases_, 1);
  Run(20, false);
  EXPECT_EQ(busy_releases_, 1);
  // Not all the time.
  resident_ = 900 * kMiB;
  Run(5, false);
  EXPECT_EQ(busy_releases_, 1);
  Run(5, false);
  EXPECT_EQ(busy_releases_, 2);
  EXPECT_EQ(idle_releases_, 0);
}

}  // namespace
}  // namespace millrace::rpc
