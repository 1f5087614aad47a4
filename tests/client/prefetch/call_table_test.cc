#include "client/prefetch/call_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/client/prefetch/fake_transport.h"

namespace millrace::prefetch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using StepRun = CallTable::Run;

// Two epochs of 10 steps, and a table of 16.
class CallTableTest : public ::testing::Test {
 protected:
  static Sequence TwoEpochs() { return *Sequence::Create({0, 0}, 2, 10); }

  // A call for `count` new batches.
  CallId RequestNew(ServerId server, uint64_t count) {
    const StepRun run = {table_.end(), count};
    table_.Append(count, now_);
    return table_.Start(server, run, false, now_);
  }

  CallId RequestAgain(ServerId server, StepRun run) {
    table_.Request(run, now_);
    return table_.Start(server, run, true, now_);
  }

  // The first frame of batch `number` has come to the call, into `slot`.
  void BeginBatch(CallId id, uint64_t number, uint8_t* slot) {
    CallTable::Call& call = *table_.Find(id);
    const testing::FakeBatch batch =
        testing::MakeBatch(plan_, table_.sequence().At(number));
    wire::FrameView frame;
    frame.has_header = true;
    frame.header = batch.header;
    wire::BatchExpectation expect;
    expect.tensors = &plan_.tensors();
    expect.max_payload_bytes = plan_.max_payload_bytes();
    ASSERT_TRUE(call.batch.Begin(frame, call.steps, expect, now_).ok());
    call.batch.Want(&frame, slot, /*verify=*/false);
  }

  const OpenResponse plan_ = testing::MakePlan(10);
  absl::Time now_ = absl::UnixEpoch();
  CallTable table_{16, TwoEpochs()};
};

TEST_F(CallTableTest, KnowsWhatIsWholeAndWhatIsNot) {
  RequestNew(1, 4);
  EXPECT_EQ(table_.low(), 0);
  EXPECT_EQ(table_.end(), 4);
  table_.MarkWhole(1);
  EXPECT_EQ(table_.low(), 0);
  EXPECT_TRUE(table_.incomplete(0));
  EXPECT_FALSE(table_.incomplete(1));
  EXPECT_FALSE(table_.incomplete(4)) << "it was never requested";
  table_.MarkWhole(0);
  EXPECT_EQ(table_.low(), 2);
}

TEST_F(CallTableTest, ACallKnowsItsStepsByPosition) {
  RequestNew(1, 10);
  const CallTable::Call& call = *table_.Find(RequestNew(2, 4));
  EXPECT_EQ(call.server, 2);
  EXPECT_EQ(call.unsettled, 4);
  EXPECT_EQ(call.steps.epoch, 1);
  EXPECT_EQ(call.steps.first_step, 0);
  EXPECT_EQ(call.steps.step_count, 4);
}

TEST_F(CallTableTest, NothingIsOwedFromTheCutOn) {
  const CallId first = RequestNew(1, 4);
  const CallId second = RequestNew(1, 4);
  const CallId third = RequestNew(1, 2);
  table_.Lose(table_.Remove(second));
  table_.MarkWhole(0);
  table_.CutAt(5);
  EXPECT_EQ(table_.end(), 5);
  EXPECT_FALSE(table_.complete());
  EXPECT_FALSE(table_.incomplete(5));
  EXPECT_EQ(table_.CountOwed(*table_.Find(first)), 3);
  EXPECT_EQ(table_.FirstOwed(*table_.Find(third)), std::nullopt);
  // Of the steps that wait, those before the cut.
  EXPECT_EQ(table_.FirstWaiting(8), (StepRun{4, 1}));
  table_.Request({4, 1}, now_);
  EXPECT_FALSE(table_.has_waiting());
  for (uint64_t number = 1; number < 5; ++number) table_.MarkWhole(number);
  EXPECT_TRUE(table_.complete());
  EXPECT_EQ(table_.low(), 5);
  // A lower one.
  table_.Remove(first);
  table_.Remove(third);
  table_.Restart(TwoEpochs());
  RequestNew(1, 4);
  table_.CutAt(3);
  table_.CutAt(0);
  EXPECT_TRUE(table_.complete());
}

TEST_F(CallTableTest, StepsOfAFailedCallAreRequestedOneByOne) {
  const CallId id = RequestNew(1, 4);
  RequestNew(1, 2);
  table_.MarkWhole(1);
  const CallTable::Call call = table_.Remove(id);
  table_.Lose(call);
  table_.RequestAlone(call);
  EXPECT_EQ(table_.FirstWaiting(8), (StepRun{0, 1}));
  table_.Request({0, 1}, now_);
  EXPECT_EQ(table_.FirstWaiting(8), (StepRun{2, 1}));
  table_.Request({2, 1}, now_);
  EXPECT_EQ(table_.FirstWaiting(8), (StepRun{3, 1}));
  table_.Request({3, 1}, now_);
  EXPECT_FALSE(table_.has_waiting());
}

TEST_F(CallTableTest, WhatTheOnlyCallLosesWaitsToBeRequestedAgain) {
  const CallId id = RequestNew(7, 4);
  table_.MarkWhole(1);
  EXPECT_FALSE(table_.has_waiting());
  EXPECT_EQ(table_.Lose(table_.Remove(id)), 3);
  EXPECT_EQ(table_.Find(id), nullptr);
  ASSERT_TRUE(table_.has_waiting());
  EXPECT_EQ(table_.FirstWaiting(10), (StepRun{0, 1}));
  EXPECT_EQ(table_.at(0).avoid, 7);
  now_ += absl::Seconds(1);
  RequestAgain(8, {0, 1});
  EXPECT_EQ(table_.at(0).requested, now_) << "no call owed it any more";
  EXPECT_EQ(table_.FirstWaiting(10), (StepRun{2, 2}));
  EXPECT_EQ(table_.FirstWaiting(1), (StepRun{2, 1}));
  RequestAgain(8, {2, 2});
  EXPECT_FALSE(table_.has_waiting());
  EXPECT_EQ(table_.FirstWaiting(10).count, 0);
}

TEST_F(CallTableTest, ARunThatWaitsEndsWithTheEpochAndAtAnotherServerToAvoid) {
  RequestNew(1, 8);
  RequestNew(1, 2);
  RequestNew(1, 2);
  RequestNew(2, 1);
  while (!table_.calls().empty()) {
    table_.Lose(table_.Remove(table_.calls().begin()->first));
  }
  EXPECT_EQ(table_.FirstWaiting(100), (StepRun{0, 10})) << "the epoch ends";
  RequestAgain(3, {0, 10});
  EXPECT_EQ(table_.FirstWaiting(100), (StepRun{10, 2})) << "the next avoids 2";
}

TEST_F(CallTableTest, AStepOfTwoCallsIsLostWithTheSecondOnly) {
  const CallId first = RequestNew(1, 3);
  const absl::Time requested = now_;
  now_ += absl::Seconds(1);
  const CallId second = RequestAgain(2, {0, 2});
  EXPECT_EQ(table_.at(0).requested, requested) << "by the first of its calls";
  table_.Find(first)->retried = true;
  EXPECT_FALSE(table_.RequestedFromOthers(*table_.Find(first)))
      << "not for step 2";
  EXPECT_TRUE(table_.RequestedFromOthers(*table_.Find(second)));
  EXPECT_THAT(table_.OtherCallsFor(1, *table_.Find(first)),
              ElementsAre(second));
  EXPECT_THAT(table_.OtherCallsFor(2, *table_.Find(first)), IsEmpty());

  EXPECT_EQ(table_.Lose(table_.Remove(second)), 0);
  EXPECT_FALSE(table_.Find(first)->retried) << "it may be retried once more";
  EXPECT_EQ(table_.Lose(table_.Remove(first)), 3);
}

TEST_F(CallTableTest, ACallThatOwesNothingIsNotAskedOfOthers) {
  const CallId id = RequestNew(1, 2);
  const CallTable::Call& call = *table_.Find(id);
  EXPECT_EQ(table_.FirstOwed(call), 0);
  EXPECT_TRUE(table_.OwesBesides(call, 0));
  table_.MarkWhole(0);
  EXPECT_EQ(table_.FirstOwed(call), 1);
  EXPECT_FALSE(table_.OwesBesides(call, 1));
  table_.MarkWhole(1);
  EXPECT_FALSE(table_.FirstOwed(call).has_value());
  EXPECT_FALSE(table_.RequestedFromOthers(call));
}

TEST_F(CallTableTest, CountsSlotsThatHoldTheSameBatch) {
  std::vector<uint8_t> slots(3);
  const CallId first = RequestNew(1, 4);
  const CallId second = RequestAgain(2, {0, 4});
  EXPECT_EQ(table_.Filling(1), 0);
  BeginBatch(first, 1, &slots[0]);
  EXPECT_EQ(table_.Find(first)->number(), 1);
  EXPECT_EQ(table_.Filling(1), 1);
  EXPECT_EQ(table_.SparesUsed(), 0);
  BeginBatch(second, 1, &slots[1]);
  EXPECT_EQ(table_.Filling(1), 2);
  EXPECT_EQ(table_.SparesUsed(), 1);
  table_.Find(first)->batch.Drop();
  EXPECT_EQ(table_.SparesUsed(), 0);
  // Shared memory takes no slot.
  BeginBatch(RequestAgain(3, {1, 1}), 1, nullptr);
  EXPECT_EQ(table_.Filling(1), 1);
}

TEST_F(CallTableTest, RestartsAtAnotherPlaceAndUsesNoIdAgain) {
  const CallId id = RequestNew(1, 4);
  table_.Lose(table_.Remove(id));
  table_.Restart(*Sequence::Create({5, 2}, 1, 10));
  EXPECT_FALSE(table_.has_waiting());
  EXPECT_EQ(table_.end(), 0);
  const CallId next = RequestNew(1, 4);
  EXPECT_NE(next, id);
  EXPECT_EQ(table_.Find(next)->steps.epoch, 5);
  EXPECT_EQ(table_.Find(next)->steps.first_step, 2);
}

}  // namespace
}  // namespace millrace::prefetch
