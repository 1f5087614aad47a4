// Paces and turns in the reserve of a host, by a clock that the test sets.

#include "server/rpc/reserve_turns.h"

#include <chrono>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "server/rpc/reader_pace.h"

namespace millrace::rpc {
namespace {

using std::chrono::milliseconds;
using enum ReaderPace;

TEST(ReaderPaceTest, IsTheTimeThatABatchTook) {
  const PaceTimes times(std::chrono::seconds(2));
  EXPECT_EQ(times.probe, std::chrono::microseconds(62'500));
  EXPECT_EQ(times.late, milliseconds(250));
  EXPECT_EQ(times.slow, milliseconds(2000));
  EXPECT_EQ(times.Of(milliseconds(0)), kPrompt);
  EXPECT_EQ(times.Of(milliseconds(62)), kPrompt);
  EXPECT_EQ(times.Of(milliseconds(63)), kLate);
  EXPECT_EQ(times.Of(milliseconds(250)), kLater);
  EXPECT_EQ(times.Of(milliseconds(2000)), kSlow);
}

TEST(ReaderPaceTest, OneLateBatchMayBeAnAccident) {
  const PaceTimes times(std::chrono::seconds(2));
  EXPECT_EQ(times.Sent(kPrompt, milliseconds(1900)), kNew);
  EXPECT_EQ(times.Sent(kNew, milliseconds(100)), kLate);
  EXPECT_EQ(times.Sent(kPrompt, milliseconds(2000)), kSlow);
  EXPECT_EQ(times.Sent(kSlow, milliseconds(300)), kLater);
  EXPECT_EQ(times.Sent(kSlow, milliseconds(10)), kPrompt);
  EXPECT_EQ(times.TakenBack(kPrompt, milliseconds(260)), kLate);
  EXPECT_EQ(times.TakenBack(kNew, milliseconds(63)), kLate);
  EXPECT_EQ(times.TakenBack(kLate, milliseconds(70)), kLate);
  EXPECT_EQ(times.TakenBack(kLate, milliseconds(250)), kLater);
  EXPECT_EQ(times.TakenBack(kLater, milliseconds(2100)), kSlow);
}

// With a short timeout, prompt clients of a busy machine are still prompt.
TEST(ReaderPaceTest, ShortTimeouts) {
  const PaceTimes half(milliseconds(500));
  EXPECT_EQ(half.probe, milliseconds(50));
  EXPECT_GE(half.late, half.probe);
  const PaceTimes shortest(milliseconds(7));
  EXPECT_EQ(shortest.probe, milliseconds(7));
  EXPECT_EQ(shortest.late, milliseconds(7));
  EXPECT_EQ(shortest.Of(milliseconds(6)), kPrompt);
  EXPECT_EQ(shortest.Of(milliseconds(7)), kSlow);
}

class ReserveTurnsTest : public ::testing::Test {
 protected:
  // The number of the one that is next; nothing: none.
  std::optional<size_t> Next(const std::vector<ReaderPace>& waiting) const {
    const auto next = turns_.Next(waiting, now_);
    if (!next.has_value()) return std::nullopt;
    return next->index;
  }

  // The next one has its turn, begins it, and ends it after `held`.
  std::optional<size_t> Run(const std::vector<ReaderPace>& waiting,
                            milliseconds held) {
    const auto next = turns_.Next(waiting, now_);
    if (!next.has_value()) return std::nullopt;
    const auto stay = turns_.Begin(*next, waiting[next->index], now_);
    now_ += held;
    turns_.End(stay, now_);
    return next->index;
  }

  ReserveTurns::Stay Begin(ReaderPace pace) {
    return turns_.Begin(*turns_.Next({pace}, now_), pace, now_);
  }

  ReserveTurns turns_{PaceTimes(std::chrono::seconds(2))};
  SteadyTime now_{std::chrono::hours(1)};
};

TEST_F(ReserveTurnsTest, PromptOnesComeFirst) {
  EXPECT_EQ(Next({}), std::nullopt);
  EXPECT_EQ(Next({kLater}), 0);
  EXPECT_EQ(Next({kLater, kLate, kNew, kPrompt, kPrompt}), 3);
  EXPECT_EQ(Next({kLater, kLate, kNew}), 2);
  EXPECT_EQ(Next({kLater, kLate, kLate}), 1);
}

// A newcomer waits neither for many that came before it nor for as many that
// come after it.
TEST_F(ReserveTurnsTest, NewOnesAreTakenFromBothEnds) {
  const std::vector<ReaderPace> waiting(40, kNew);
  EXPECT_EQ(Run(waiting, milliseconds(63)), 39);
  EXPECT_EQ(Run(waiting, milliseconds(63)), 0);
  EXPECT_EQ(Run(waiting, milliseconds(63)), 39);
  EXPECT_EQ(Run(waiting, milliseconds(63)), 0);
}

TEST_F(ReserveTurnsTest, ATurnLastsWhileNobodyWaits) {
  const auto stay = Begin(kNew);
  EXPECT_FALSE(turns_.MustLeave(stay, milliseconds(5000), {}, now_));
  EXPECT_TRUE(turns_.MustLeave(stay, milliseconds(63), {kNew}, now_));
  EXPECT_FALSE(turns_.MustLeave(stay, milliseconds(62), {kNew}, now_));
  EXPECT_FALSE(turns_.MustLeave(stay, milliseconds(62), {kPrompt}, now_));
}

TEST_F(ReserveTurnsTest, ALateOneLeavesForABetterOneAtOnce) {
  const auto stay = Begin(kLater);
  EXPECT_FALSE(turns_.MustLeave(stay, milliseconds(1999), {kLater}, now_));
  EXPECT_TRUE(turns_.MustLeave(stay, milliseconds(2000), {kLater}, now_));
  EXPECT_FALSE(turns_.MustLeave(stay, milliseconds(62), {kLate}, now_));
  EXPECT_TRUE(turns_.MustLeave(stay, milliseconds(63), {kLate}, now_));
  EXPECT_TRUE(turns_.MustLeave(stay, milliseconds(63), {kNew}, now_));
}

// Beside prompt connections the others get a quarter of the time, in turns that
// nobody cuts short.
TEST_F(ReserveTurnsTest, OthersGetAQuarterOfTheTimeBesidePromptOnes) {
  milliseconds prompt{0}, others{0};
  for (int turn = 0; turn < 20'000; ++turn) {
    const auto next = turns_.Next({kLater, kPrompt}, now_);
    ASSERT_TRUE(next.has_value());
    const bool is_prompt = next->index == 1;
    EXPECT_EQ(next->has_credit, !is_prompt);
    const auto stay = turns_.Begin(*next, is_prompt ? kPrompt : kLater, now_);
    const milliseconds held(is_prompt ? 8 : 800);
    if (!is_prompt) {
      EXPECT_FALSE(turns_.MustLeave(stay, held, {kPrompt}, now_ + held));
    }
    now_ += held;
    turns_.End(stay, now_);
    (is_prompt ? prompt : others) += held;
  }
  EXPECT_NEAR(static_cast<double>(others / milliseconds(1)),
              static_cast<double>((others + prompt) / milliseconds(1)) / 4,
              3000);
}

TEST_F(ReserveTurnsTest, ALateOneWaitsForCreditWhilePromptOnesUseIt) {
  (void)Run({kPrompt}, milliseconds(8));
  EXPECT_EQ(Next({kLate}), std::nullopt);
  EXPECT_EQ(Next({kLate, kNew}), 1) << "a new one needs no credit";
  for (int i = 0; i < 10; ++i) {
    now_ += milliseconds(92);
    EXPECT_EQ(Next({kLate}).has_value(), i == 9) << i;
    (void)Run({kPrompt}, milliseconds(8));
  }
  EXPECT_EQ(Next({kLate}), 0) << "it has 250 ms of credit";
  EXPECT_EQ(Next({kLater}), std::nullopt);
  // No prompt one has used it for a while.
  now_ += milliseconds(500);
  EXPECT_EQ(Next({kLater}), 0);
  // A prompt one that comes now does not pay for the time before.
  (void)Run({kPrompt}, milliseconds(8));
  EXPECT_EQ(Next({kNew, kPrompt}), 1);
  EXPECT_EQ(Next({kLate}), std::nullopt);
}

}  // namespace
}  // namespace millrace::rpc
