// What follows from a state and a time: which steps are requested once more,
// where, and which calls end. hedge_test has the same with a loader around it.

#include "client/prefetch/late_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "common/logging.h"
#include "tests/client/prefetch/fake_transport.h"

namespace millrace::prefetch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Request = LateSteps::Request;
using StepRun = CallTable::Run;

absl::Duration Ms(int64_t ms) { return absl::Milliseconds(ms); }

// Servers 1 and 2 are connected. Steps took 10 ms, so that one is late after
// 15 ms, and a server is silent after a second.
class LateStepsTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kStepTimeout = absl::Seconds(15);

  LateStepsTest() {
    SetMinLogSeverity(LogSeverity::kERROR);
    SetServers(true, true);
    for (size_t i = 0; i < HedgePolicy::kEnough; ++i) hedge_.Delivered(Ms(10));
  }

  void SetServers(bool first, bool second) {
    servers_.Update(
        std::vector<ServerState>{{1, "a", first}, {2, "b", second}});
  }

  CallId Start(ServerId server, StepRun run, absl::Time now) {
    servers_.Asked(server, run.count, now);
    return table_.Start(server, run, false, now);
  }

  // A call for `count` new steps, at kStart.
  CallId RequestNew(ServerId server, uint64_t count) {
    const StepRun run = {table_.end(), count};
    table_.Append(count, kStart);
    return Start(server, run, kStart);
  }

  std::optional<Request> FindLate(absl::Duration after,
                                  absl::Duration consumer_step = Ms(1)) {
    return late_.FindLate(0, consumer_step, kStart + after);
  }

  static constexpr absl::Time kStart = absl::UnixEpoch();
  CallTable table_{64, *Sequence::Create({0, 0}, 1, 100)};
  ServerSet servers_{1};
  HedgePolicy hedge_{0.05, Ms(1)};
  LateSteps late_{{kStepTimeout, true}, &table_, &servers_, &hedge_};
};

// The line came in the middle of the trainer's progress line. The first test,
// because the line is logged once in 10 s.
TEST_F(LateStepsTest, ALateStepLogsNothingForUsers) {
  RequestNew(1, 1);
  SetMinLogSeverity(LogSeverity::kINFO);
  ::testing::internal::CaptureStderr();
  const bool late = FindLate(Ms(15)).has_value();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(late);
}

TEST_F(LateStepsTest, ALateStepIsRequestedFromTheOtherServerOnce) {
  const CallId id = RequestNew(1, 3);
  EXPECT_FALSE(FindLate(Ms(14)).has_value());
  const auto late = FindLate(Ms(15));
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(*late, (Request{id, 1, {0, 3}, Ms(15), true}));

  const uint64_t before = hedge_.Affordable();
  EXPECT_EQ(late_.Assign(*late, kStart + Ms(15)), 2);
  EXPECT_EQ(table_.at(0).calls, 2);
  EXPECT_EQ(table_.at(2).calls, 2);
  EXPECT_EQ(hedge_.Affordable(), before - 3);
  Start(2, late->run, kStart + Ms(15));
  EXPECT_FALSE(FindLate(Ms(100)).has_value());
}

TEST_F(LateStepsTest, StepsThatTheConsumerNeedsLaterCanWait) {
  RequestNew(1, 8);
  // In 15 ms it comes to the second one, and not to the third.
  EXPECT_EQ(FindLate(Ms(15), Ms(10))->run, (StepRun{0, 2}));
  // And no more than the budget pays.
  EXPECT_EQ(FindLate(Ms(15), Ms(0))->run, (StepRun{0, 4}));
}

TEST_F(LateStepsTest, OneRunIsOfOneServer) {
  RequestNew(1, 1);
  RequestNew(2, 1);
  servers_.Heard(2, kStart + Ms(10));
  EXPECT_EQ(FindLate(Ms(15))->run, (StepRun{0, 1}));
}

TEST_F(LateStepsTest, NothingIsLateWithoutAnotherServer) {
  RequestNew(1, 1);
  SetServers(true, false);
  EXPECT_FALSE(FindLate(Ms(100)).has_value());
  SetServers(true, true);
  EXPECT_TRUE(FindLate(Ms(100)).has_value());
  // One that owes a frame for as long is no help.
  RequestNew(2, 1);
  EXPECT_FALSE(FindLate(Ms(100)).has_value());
}

TEST_F(LateStepsTest, AStepWhoseFramesAreArrivingIsNotRequestedAgain) {
  const OpenResponse plan = testing::MakePlan(100);
  CallTable::Call& call = *table_.Find(RequestNew(1, 1));
  wire::FrameView frame;
  frame.has_header = true;
  frame.header = testing::MakeBatch(plan, {0, 0}).header;
  wire::BatchExpectation expect;
  expect.tensors = &plan.tensors();
  expect.max_payload_bytes = plan.max_payload_bytes();
  call.progress = kStart + Ms(20);
  ASSERT_TRUE(call.batch.Begin(frame, call.steps, expect, call.progress).ok());
  EXPECT_FALSE(FindLate(Ms(21)).has_value());
  // They have stopped for a quarter of the delay.
  EXPECT_TRUE(FindLate(Ms(24)).has_value());
}

TEST_F(LateStepsTest, AllThatASilentServerOwesIsRequestedElsewhere) {
  EXPECT_EQ(late_.SilentAfter(), absl::Seconds(1));
  const CallId id = RequestNew(1, 20);
  table_.MarkWhole(1);
  LateSteps::Silent silent = late_.FindSilent(kStart + Ms(999));
  EXPECT_THAT(silent.requests, IsEmpty());
  EXPECT_FALSE(servers_.IsSilent(1, kStart + Ms(999)));

  const absl::Time now = kStart + Ms(1000);
  silent = late_.FindSilent(now);
  EXPECT_THAT(silent.covered, IsEmpty());
  EXPECT_THAT(silent.requests,
              ElementsAre(Request{id, 1, {0, 1}, Ms(15), false},
                          Request{id, 1, {2, 18}, Ms(15), false}));
  EXPECT_TRUE(servers_.IsSilent(1, now));
  const uint64_t budget = hedge_.Affordable();
  for (const Request& request : silent.requests) {
    EXPECT_EQ(late_.Assign(request, now), 2);
    Start(2, request.run, now);
  }
  EXPECT_EQ(hedge_.Affordable(), budget) << "a retry is no hedge";
  EXPECT_THAT(late_.FindSilent(now + Ms(1)).requests, IsEmpty())
      << "retried already";
}

TEST_F(LateStepsTest, AServerThatLostARaceIsLeftAfterOneDelay) {
  const CallId id = RequestNew(1, 20);
  servers_.LostRace(1);
  EXPECT_THAT(late_.FindSilent(kStart + Ms(14)).requests, IsEmpty());
  EXPECT_THAT(late_.FindSilent(kStart + Ms(15)).requests,
              ElementsAre(Request{id, 1, {0, 20}, Ms(15), true}));
  EXPECT_TRUE(servers_.IsSilent(1, kStart + Ms(15)));
}

TEST_F(LateStepsTest, ABudgetInDebtLeavesNoServerBeforeItIsSilent) {
  RequestNew(1, 20);
  servers_.LostRace(1);
  hedge_.Spend(20);
  EXPECT_THAT(late_.FindSilent(kStart + Ms(999)).requests, IsEmpty());
  EXPECT_FALSE(FindLate(Ms(999)).has_value());
}

TEST_F(LateStepsTest, TheOnlyServerIsCalledSilentAndRetriedNowhere) {
  const CallId id = RequestNew(1, 4);
  SetServers(true, false);
  EXPECT_THAT(late_.FindSilent(kStart + absl::Seconds(14)).requests, IsEmpty());
  EXPECT_FALSE(servers_.IsSilent(1, kStart + absl::Seconds(14)));
  const absl::Time now = kStart + kStepTimeout;
  EXPECT_THAT(late_.FindSilent(now).requests, IsEmpty());
  EXPECT_TRUE(servers_.IsSilent(1, now));
  // As soon as there is another one.
  SetServers(true, true);
  EXPECT_THAT(late_.FindSilent(now).requests,
              ElementsAre(Request{id, 1, {0, 4}, kStepTimeout, false}));
}

TEST_F(LateStepsTest, TheOnlyServerIsAskedOverANewConnectionInTheEnd) {
  const CallId id = RequestNew(1, 4);
  SetServers(true, false);
  const absl::Time now = kStart + 2 * kStepTimeout;
  EXPECT_THAT(late_.FindSilent(now - Ms(1)).reconnect, IsEmpty());
  const LateSteps::Silent silent = late_.FindSilent(now);
  EXPECT_THAT(silent.covered, IsEmpty());
  EXPECT_THAT(silent.reconnect, ElementsAre(1));
  EXPECT_THAT(silent.requests,
              ElementsAre(Request{id, 1, {0, 4}, kStepTimeout, false, true}));
  servers_.Reconnected(1, now);
  EXPECT_EQ(late_.Assign(silent.requests[0], now), 1);
  const CallId second = Start(1, {0, 4}, now + Ms(1));
  // From the second connection on the time doubles.
  const absl::Time next = now + Ms(1) + 4 * kStepTimeout;
  EXPECT_THAT(late_.FindSilent(next - Ms(1)).requests, IsEmpty());
  EXPECT_THAT(
      late_.FindSilent(next).requests,
      ElementsAre(Request{second, 1, {0, 4}, kStepTimeout, false, true}));
}

// A call that began before the new connection needs no further one.
TEST_F(LateStepsTest, ACallOfAnOlderConnectionIsRequestedOverTheNewOne) {
  RequestNew(1, 4);
  SetServers(true, false);
  servers_.Reconnected(1, kStart);
  const LateSteps::Silent silent = late_.FindSilent(kStart + kStepTimeout);
  EXPECT_THAT(silent.reconnect, IsEmpty());
  ASSERT_THAT(silent.requests, ::testing::SizeIs(1));
  EXPECT_TRUE(silent.requests[0].same_server);
}

TEST_F(LateStepsTest, AServerThatIsSilentAgainGetsANewConnection) {
  RequestNew(1, 2);
  EXPECT_THAT(late_.FindSilent(kStart + Ms(1000)).reconnect, IsEmpty());
  const absl::Time later = kStart + ServerSet::kLeaveOutFor + Ms(1001);
  table_.Append(2, later);
  const CallId id = Start(1, {2, 2}, later);
  const LateSteps::Silent again = late_.FindSilent(later + Ms(1000));
  EXPECT_THAT(again.reconnect, ElementsAre(1));
  EXPECT_THAT(again.requests,
              ElementsAre(Request{id, 1, {2, 2}, Ms(15), false}));
  // It is no less silent for the connection.
  servers_.Reconnected(1, later + Ms(1000));
  SetServers(false, true);
  SetServers(true, true);
  EXPECT_TRUE(servers_.IsSilent(1, later + Ms(1001)));
  // One that ended by itself is a new beginning.
  SetServers(false, true);
  SetServers(true, true);
  EXPECT_FALSE(servers_.IsSilent(1, later + Ms(1001)));
}

TEST_F(LateStepsTest, ARequestThatNobodyCanTakeIsFoundAgain) {
  RequestNew(1, 4);
  const absl::Time now = kStart + Ms(1000);
  LateSteps::Silent silent = late_.FindSilent(now);
  ASSERT_EQ(silent.requests.size(), 1);
  SetServers(true, false);
  EXPECT_FALSE(late_.Assign(silent.requests[0], now).has_value());
  EXPECT_EQ(table_.at(0).calls, 1);
  SetServers(true, true);
  EXPECT_EQ(late_.FindSilent(now).requests, silent.requests);
}

TEST_F(LateStepsTest, OfTwoSilentCallsForTheSameStepsOneStays) {
  const CallId first = RequestNew(1, 2);
  table_.Request({0, 2}, kStart);
  const CallId second = Start(2, {0, 2}, kStart);
  const absl::Time now = kStart + kStepTimeout;
  // Their servers send, but nothing of these.
  servers_.Heard(1, now);
  servers_.Heard(2, now);
  const LateSteps::Silent silent = late_.FindSilent(now);
  EXPECT_THAT(silent.requests, IsEmpty());
  EXPECT_THAT(silent.covered, ElementsAre(first, second));
  EXPECT_TRUE(late_.IsCovered(first, now));
  table_.Lose(table_.Remove(first));
  EXPECT_FALSE(late_.IsCovered(second, now));
}

// A server serves the calls of a loader in the order of their batches: a call
// behind an earlier one, whose frames arrive, waits for its turn.
TEST_F(LateStepsTest, ACallBehindAnEarlierOneIsNotSilent) {
  SetServers(true, false);
  const CallId first = RequestNew(1, 2);
  const CallId second = RequestNew(1, 2);
  const absl::Time now = kStart + 2 * kStepTimeout;
  const auto hear = [this](CallId id, absl::Time at) {
    table_.NoteProgress(*table_.Find(id), at);
    servers_.Heard(1, at);
  };
  hear(first, now);
  EXPECT_THAT(late_.FindSilent(now).requests, IsEmpty());
  EXPECT_FALSE(servers_.IsSilent(1, now));
  // From then on its own silence counts.
  const absl::Time later = now + 2 * kStepTimeout;
  table_.MarkWhole(0);
  table_.MarkWhole(1);
  table_.Remove(first);
  servers_.Heard(1, later - Ms(1));
  EXPECT_THAT(late_.FindSilent(later - Ms(1)).requests, IsEmpty());
  servers_.Heard(1, later);
  EXPECT_THAT(
      late_.FindSilent(later).requests,
      ElementsAre(Request{second, 1, {2, 2}, kStepTimeout, false, true}));
}

TEST_F(LateStepsTest, FramesOfALaterCallDoNotHideASilentOne) {
  SetServers(true, false);
  const CallId first = RequestNew(1, 2);
  const CallId second = RequestNew(1, 2);
  const absl::Time now = kStart + 2 * kStepTimeout;
  table_.NoteProgress(*table_.Find(second), now);
  servers_.Heard(1, now);
  EXPECT_THAT(
      late_.FindSilent(now).requests,
      ElementsAre(Request{first, 1, {0, 2}, kStepTimeout, false, true}));
}

TEST_F(LateStepsTest, WithoutHedgingOnlyTheTimeoutCounts) {
  LateSteps late({kStepTimeout, false}, &table_, &servers_, &hedge_);
  EXPECT_EQ(late.SilentAfter(), kStepTimeout);
  HedgePolicy unknown(0.05, Ms(1));
  LateSteps early({kStepTimeout, true}, &table_, &servers_, &unknown);
  EXPECT_EQ(early.SilentAfter(), kStepTimeout) << "too little is known";
}

}  // namespace
}  // namespace millrace::prefetch
