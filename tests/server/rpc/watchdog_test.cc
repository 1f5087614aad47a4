// When a server that does not answer is given up: by probes and times that are
// made up.

#include "server/rpc/watchdog.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class WatchdogTest : public ::testing::Test {
 protected:
  // Answers what `answer_` is when it is polled.
  class FakeProbe final : public Probe {
   public:
    explicit FakeProbe(const std::optional<absl::Status>* answer)
        : answer_(answer) {}
    std::optional<absl::Status> Poll() override { return *answer_; }

   private:
    const std::optional<absl::Status>* const answer_;
  };

  // The process runs for so long. True: the watchdog gives up meanwhile.
  bool Runs(milliseconds time, milliseconds tick = Watchdog::kTick) {
    for (milliseconds past{0}; past < time; past += tick) {
      now_ += tick;
      verdict_ = watchdog_.Look(now_);
      if (!verdict_.ok()) return true;
    }
    return false;
  }

  std::optional<absl::Status> answer_ = absl::OkStatus();
  int probes_ = 0;
  SteadyTime now_{seconds(1000)};
  absl::Status verdict_;
  Watchdog watchdog_{{},
                     [this] {
                       ++probes_;
                       return std::make_unique<FakeProbe>(&answer_);
                     },
                     now_};
};

TEST_F(WatchdogTest, AServerThatAnswersIsLeftAlone) {
  EXPECT_FALSE(Runs(seconds(600)));
  EXPECT_GE(probes_, 59);
  EXPECT_LE(probes_, 61);
}

TEST_F(WatchdogTest, ThreeProbesWithoutAnswerAreTheEnd) {
  EXPECT_FALSE(Runs(seconds(60)));
  answer_ = std::nullopt;
  // 10 s to the next probe at most, then three of 10 s.
  EXPECT_FALSE(Runs(seconds(29)));
  EXPECT_TRUE(Runs(seconds(13)));
  EXPECT_EQ(verdict_.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(verdict_.message()), HasSubstr("3 probes in a row"));
  EXPECT_THAT(std::string(verdict_.message()),
              HasSubstr("no answer within 10 s"));
}

TEST_F(WatchdogTest, ProbesThatFailAtOnceTakeAsLong) {
  EXPECT_FALSE(Runs(seconds(60)));
  answer_ = absl::UnavailableError("Connection refused");
  EXPECT_FALSE(Runs(seconds(19)));
  EXPECT_TRUE(Runs(seconds(13)));
  EXPECT_THAT(std::string(verdict_.message()), HasSubstr("Connection refused"));
}

TEST_F(WatchdogTest, OneAnswerBetweenFailuresIsEnough) {
  EXPECT_FALSE(Runs(seconds(60)));
  for (int i = 0; i < 10; ++i) {
    answer_ = std::nullopt;
    EXPECT_FALSE(Runs(seconds(22)));
    answer_ = absl::OkStatus();
    EXPECT_FALSE(Runs(seconds(11)));
  }
}

// SIGSTOP, a debugger, a virtual machine that is moved: in the middle of a
// probe, for much longer than all its time.
TEST_F(WatchdogTest, APauseOfTheProcessDoesNotCount) {
  EXPECT_FALSE(Runs(seconds(60)));
  answer_ = std::nullopt;
  EXPECT_FALSE(Runs(seconds(25)));
  for (int i = 0; i < 3; ++i) {
    now_ += seconds(300);
    EXPECT_FALSE(Runs(Watchdog::kTick));
  }
  answer_ = absl::OkStatus();
  EXPECT_FALSE(Runs(seconds(60)));
}

// A cgroup's quota, or a machine that swaps: the process runs now and then.
TEST_F(WatchdogTest, AThrottledProcessIsGivenItsTime) {
  EXPECT_FALSE(Runs(seconds(60)));
  answer_ = std::nullopt;
  // A tenth of the time it runs: 30 s become 300.
  EXPECT_FALSE(Runs(seconds(280), 10 * Watchdog::kTick));
  answer_ = absl::OkStatus();
  EXPECT_FALSE(Runs(seconds(60), 10 * Watchdog::kTick));
  answer_ = std::nullopt;
  EXPECT_TRUE(Runs(seconds(420), 10 * Watchdog::kTick));
}

TEST_F(WatchdogTest, AServerThatNeverReachedItselfIsNotWatched) {
  answer_ = absl::UnavailableError("Connection refused");
  EXPECT_FALSE(Runs(seconds(600)));
  EXPECT_FALSE(watchdog_.armed());
  answer_ = absl::OkStatus();
  EXPECT_FALSE(Runs(seconds(20)));
  EXPECT_TRUE(watchdog_.armed());
}

TEST_F(WatchdogTest, AProbeThatCannotBeMadeSaysNothing) {
  EXPECT_FALSE(Runs(seconds(60)));
  answer_ = absl::ResourceExhaustedError("Too many open files");
  EXPECT_FALSE(Runs(seconds(600)));
}

}  // namespace
}  // namespace millrace::rpc
