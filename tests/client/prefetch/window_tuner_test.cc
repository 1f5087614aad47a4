// One decision after the other, at paces that the test makes up.
// window_tuner_simulation_test has whole loads.

#include "client/prefetch/window_tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace millrace::prefetch {
namespace {

using ::testing::HasSubstr;

// Batches a second at a window; the consumer only waits.
using Rate = std::function<double(uint32_t window)>;

class WindowTunerTest : public ::testing::Test {
 protected:
  // An interval at the present window, after 2 s for a change to settle.
  static bool Decide(WindowTuner& tuner, const WindowInterval& seen) {
    while (tuner.Look(1000, 2) != WindowTuner::Next::kDecide) {
    }
    return tuner.Decide(seen);
  }

  static WindowInterval Waiting(double rate, uint32_t servers = 1) {
    WindowInterval seen;
    seen.seconds = 2;
    seen.batches = static_cast<uint64_t>(2 * rate);
    seen.stall_seconds = 2;
    seen.servers = servers;
    return seen;
  }

  static WindowInterval Calm(double rate, uint64_t in_hand) {
    WindowInterval seen = Waiting(rate);
    seen.stall_seconds = 0;
    seen.min_in_hand = in_hand;
    return seen;
  }

  static uint32_t Run(WindowTuner& tuner, int intervals, const Rate& rate) {
    for (int i = 0; i < intervals; ++i) {
      Decide(tuner, Waiting(rate(tuner.window())));
    }
    return tuner.window();
  }
};

TEST_F(WindowTunerTest, WaitsForAWholeWindowBeforeItCounts) {
  WindowTuner tuner({.initial = 16, .max = 64});
  EXPECT_EQ(tuner.Look(15, 5), WindowTuner::Next::kGoOn);
  EXPECT_EQ(tuner.Look(16, 5), WindowTuner::Next::kRestart);
  EXPECT_EQ(tuner.Look(100, 0.9), WindowTuner::Next::kGoOn);
  EXPECT_EQ(tuner.Look(15, 1.5), WindowTuner::Next::kGoOn);
  EXPECT_EQ(tuner.Look(16, 1.5), WindowTuner::Next::kDecide);
  EXPECT_EQ(tuner.Look(1, 60), WindowTuner::Next::kGoOn) << "one says nothing";
  EXPECT_EQ(tuner.Look(2, 10), WindowTuner::Next::kDecide);
  tuner.Disturbed();
  EXPECT_EQ(tuner.Look(15, 5), WindowTuner::Next::kGoOn);
}

TEST_F(WindowTunerTest, GrowsAsLongAsItPaysAndGoesBackWhenItDoesNot) {
  WindowTuner tuner({.initial = 2, .max = 64});
  const Rate rate = [](uint32_t window) { return std::min(window, 12u) * 10.; };
  EXPECT_TRUE(Decide(tuner, Waiting(rate(2))));
  EXPECT_EQ(tuner.window(), 4);
  EXPECT_EQ(tuner.reason(), "the consumer waited 100 % of the time");
  EXPECT_TRUE(Decide(tuner, Waiting(rate(4))));
  EXPECT_EQ(tuner.window(), 8);
  EXPECT_EQ(tuner.reason(),
            "the consumer waited 100 % of the time, and 4 was 2 times as fast "
            "as 2");
  EXPECT_TRUE(Decide(tuner, Waiting(rate(8))));
  EXPECT_TRUE(Decide(tuner, Waiting(rate(16))));
  EXPECT_EQ(tuner.window(), 32);
  EXPECT_TRUE(Decide(tuner, Waiting(rate(32))));
  EXPECT_EQ(tuner.window(), 16);
  EXPECT_EQ(tuner.reason(), "back to 16, because 32 was not faster");
  EXPECT_EQ(tuner.changes(), 5);
  // Not again at once.
  EXPECT_FALSE(Decide(tuner, Waiting(rate(16))));
}

TEST_F(WindowTunerTest, LooksForLessWhereMoreBringsNothing) {
  WindowTuner tuner({.initial = 64, .max = 64});
  const Rate rate = [](uint32_t window) { return std::min(window, 12u) * 10.; };
  Run(tuner, 30, rate);  // about a minute
  std::vector<uint32_t> windows;
  for (int i = 0; i < 31; ++i) windows.push_back(Run(tuner, 1, rate));
  std::nth_element(windows.begin(), windows.begin() + 15, windows.end());
  EXPECT_GE(windows[15], 12);
  EXPECT_LE(windows[15], 16);
  const uint64_t changes = tuner.changes();
  Run(tuner, 60, rate);  // two minutes
  EXPECT_LE(tuner.changes() - changes, 8) << "trials do not become rarer";
}

TEST_F(WindowTunerTest, RatesThatVaryByThemselvesMoveItLittle) {
  for (const uint32_t initial : {4u, 16u, 64u}) {
    WindowTuner tuner({.initial = initial, .max = 64});
    uint64_t noise = initial;
    uint32_t least = 64;
    for (int i = 0; i < 500; ++i) {
      const uint32_t window = Run(tuner, 1, [&noise](uint32_t at) {
        noise = noise * 6364136223846793005u + 1442695040888963407u;
        const double draw = static_cast<double>(noise >> 33) / (1u << 30) - 1;
        return std::min(at, 12u) * 10. * (1 + 0.1 * draw);
      });
      if (i >= 30) least = std::min(least, window);
    }
    EXPECT_GE(least, 6) << initial;
    EXPECT_LE(tuner.changes(), 200) << initial;
  }
}

TEST_F(WindowTunerTest, ServersThatLackMemoryAreAskedForLess) {
  WindowTuner tuner({.initial = 16, .max = 64, .cheap = 64});
  WindowInterval seen = Waiting(100);
  seen.servers_lack_memory = true;
  uint32_t before = 16;
  for (int i = 0; i < 8 && before > 2; ++i) {
    Decide(tuner, seen);
    EXPECT_LT(tuner.window(), before);
    EXPECT_THAT(tuner.reason(), HasSubstr("short of memory"));
    before = tuner.window();
  }
  EXPECT_EQ(before, 2);
  EXPECT_FALSE(Decide(tuner, seen)) << "less than a window of 2";
  // And not more for half a minute, although the consumer waits.
  for (int i = 0; i < 14; ++i) {
    Decide(tuner, Waiting(100));
    EXPECT_EQ(tuner.window(), 2);
  }
  Run(tuner, 3, [](uint32_t) { return 100; });
  EXPECT_EQ(tuner.changes(), 5) << "that is tried then";
}

TEST_F(WindowTunerTest, ATrialThatTakesServersTheirMemoryFails) {
  WindowTuner tuner({.initial = 8, .max = 64});
  EXPECT_TRUE(Decide(tuner, Waiting(100)));
  EXPECT_EQ(tuner.window(), 16);
  WindowInterval seen = Waiting(150);
  seen.servers_lack_memory = true;
  EXPECT_TRUE(Decide(tuner, seen));
  EXPECT_EQ(tuner.window(), 8);
}

TEST_F(WindowTunerTest, ServersThatAreBusyAreNotAskedForMore) {
  WindowTuner tuner({.initial = 8, .max = 64, .cheap = 8});
  WindowInterval seen = Waiting(100);
  seen.servers_are_busy = true;
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(Decide(tuner, seen));
}

TEST_F(WindowTunerTest, EveryServerHasTwo) {
  WindowTuner tuner({.initial = 4, .max = 64});
  EXPECT_TRUE(Decide(tuner, Waiting(100, 6)));
  EXPECT_EQ(tuner.window(), 12);
  EXPECT_EQ(tuner.reason(), "6 servers are in use");
  // As far as there is room.
  WindowTuner small({.initial = 4, .max = 8});
  EXPECT_TRUE(Decide(small, Waiting(100, 6)));
  EXPECT_EQ(small.window(), 8);
  EXPECT_FALSE(Decide(small, Waiting(100, 6)));
}

TEST_F(WindowTunerTest, OfAConsumerThatNeverWaitsItTakesWhatAlwaysLiesInHand) {
  WindowTuner tuner({.initial = 32, .max = 64});
  int intervals = 0;
  while (tuner.changes() == 0 && intervals < 10) {
    Decide(tuner, Calm(100, 20));
    ++intervals;
  }
  EXPECT_GE(intervals, 2) << "one interval is not enough";
  EXPECT_EQ(tuner.window(), 32 - (20 - 7));
  EXPECT_EQ(tuner.reason(),
            "20 batches were always ready; checking that throughput holds");
  // It waits now: back, and not so soon again.
  WindowInterval seen = Calm(100, 0);
  seen.stall_seconds = 0.1;
  EXPECT_TRUE(Decide(tuner, seen));
  EXPECT_EQ(tuner.window(), 32);
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(Decide(tuner, Calm(100, 20)));
}

TEST_F(WindowTunerTest, AWindowOfLittleMemoryIsLeftAsItIs) {
  WindowTuner tuner({.initial = 64, .max = 256, .cheap = 80});
  for (int i = 0; i < 30; ++i) Decide(tuner, Calm(1000, 60));
  EXPECT_EQ(tuner.window(), 64);
}

TEST_F(WindowTunerTest, ANewLoadIsAnsweredAtOnce) {
  WindowTuner tuner({.initial = 8, .max = 64});
  const Rate near = [](uint32_t window) { return std::min(window, 8u) * 10.; };
  Run(tuner, 100, near);
  ASSERT_LE(tuner.window(), 12);
  // The servers are farther away.
  const Rate far = [](uint32_t window) { return std::min(window, 60u) * 1.3; };
  Run(tuner, 20, far);
  EXPECT_GE(tuner.window(), 48);
}

}  // namespace
}  // namespace millrace::prefetch
