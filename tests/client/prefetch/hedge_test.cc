// Steps that are late and asked of a second server, moved by hand: which,
// where, what the two answers do to each other, and what is left when one of
// them fails.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/prefetch/hedge_policy.h"
#include "client/prefetch/prefetch_loader.h"
#include "common/logging.h"
#include "proto/error_detail.h"
#include "tests/client/prefetch/fake_transport.h"

namespace millrace::prefetch {
namespace {

using ::millrace::testing::FakeBatch;
using ::millrace::testing::FakeTransport;
using ::millrace::testing::MakeBatch;
using ::millrace::testing::MakePlan;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Counts the slots.
class CountingAllocator : public SlotAllocator {
 public:
  uint8_t* Allocate(uint64_t bytes) override {
    ++slots;
    return plain_->Allocate(bytes);
  }
  void Free(uint8_t* data, uint64_t bytes) override {
    plain_->Free(data, bytes);
  }
  int slots = 0;

 private:
  const std::shared_ptr<SlotAllocator> plain_ = NewPlainSlotAllocator();
};

class HedgeTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kWindow = 16;

  HedgeTest() {
    SetMinLogSeverity(LogSeverity::kERROR);
    options_.endpoint = "test:1";
    options_.window = kWindow;
    options_.allocator = allocator_;
    // By the fake clock, of which each look takes 1 us.
    options_.next_timeout = absl::Milliseconds(1);
  }

  // Opens, and delivers steps that each took 10 ms: one is late from 20 ms on.
  // Then a window of steps is asked for, the first of them at `slow_`.
  void Open(int servers = 2, absl::Duration consumer_step = {}) {
    plan_ = MakePlan(100'000);
    auto transport = std::make_unique<FakeTransport>(plan_);
    fake_ = transport.get();
    for (int i = 1; i <= servers; ++i) {
      states_.push_back(
          {static_cast<ServerId>(i), std::string(1, 'a' + i - 1), true});
    }
    fake_->SetServers(states_);
    auto loader =
        NewPrefetchLoader(options_, plan_, std::move(transport), time_,
                          [this] { return time_ += absl::Microseconds(1); });
    ASSERT_TRUE(loader.ok()) << loader.status();
    loader_ = *std::move(loader);
    for (int round = 0; round < 4; ++round) {
      time_ += absl::Milliseconds(10);
      CompleteAll();
      for (uint64_t i = 0; i < kWindow; ++i) {
        ExpectNext();
        time_ += consumer_step;
      }
      fake_->Tick();
    }
    for (const auto& [id, call] : fake_->calls()) {
      if (call.steps.first_step != next_) continue;
      late_ = id;
      slow_ = call.server;
    }
    ASSERT_NE(late_, 0);
    fast_ = slow_ == 1 ? 2 : 1;
  }

  // Everything is sent but what `slow_` owes, and that is late now.
  void BeLate() {
    time_ += absl::Milliseconds(100);
    for (const auto& state : states_) {
      if (state.id == slow_) continue;
      for (const CallId id : fake_->CallsAt(state.id)) fake_->Complete(id);
    }
    const size_t asked = fake_->history().size();
    fake_->Tick();
    second_ = 0;
    if (fake_->history().size() == asked) return;
    for (const auto& [id, call] : fake_->calls()) {
      if (id > late_ && call.server != slow_ &&
          call.steps.first_step == next_) {
        second_ = id;
      }
    }
  }

  void ExpectNext() { EXPECT_TRUE(NextBatch().ok()); }

  // The same, and the batch.
  absl::StatusOr<HostBatch> NextBatch() {
    absl::StatusOr<HostBatch> batch = loader_->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok()) return batch;
    EXPECT_EQ(batch->position, (Position{0, next_}));
    EXPECT_EQ(std::string(batch->payload.begin(), batch->payload.end()),
              MakeBatch(plan_, {0, next_}).payload);
    ++next_;
    return batch;
  }

  void CompleteAll() {
    while (!fake_->calls().empty()) {
      fake_->Complete(fake_->calls().begin()->first);
    }
  }

  // What was asked for is delivered and taken.
  void TakeAll() {
    CompleteAll();
    uint64_t end = 0;
    for (const auto& [server, steps] : fake_->history()) {
      end = std::max(end, steps.first_step + steps.step_count);
    }
    while (next_ < end && NextBatch().ok()) {
    }
    fake_->Tick();
  }

  // The stream goes on, over several windows.
  void ExpectGoesOn() {
    const uint64_t from = next_;
    for (int round = 0; round < 6; ++round) {
      time_ += absl::Milliseconds(10);
      TakeAll();
    }
    EXPECT_GE(next_, from + 4 * kWindow);
    EXPECT_LE(allocator_->slots, kWindow + 2);
  }

  absl::Time time_ = absl::UnixEpoch() + absl::Hours(1);
  std::shared_ptr<CountingAllocator> allocator_ =
      std::make_shared<CountingAllocator>();
  HostLoaderOptions options_;
  OpenResponse plan_;
  std::vector<ServerState> states_;
  FakeTransport* fake_ = nullptr;
  std::unique_ptr<HostLoader> loader_;
  uint64_t next_ = 0;
  CallId late_ = 0;    // asks for the step that the consumer comes to
  CallId second_ = 0;  // the second request
  ServerId slow_ = 0;
  ServerId fast_ = 0;
};

TEST_F(HedgeTest, ALateStepIsAskedOfASecondServerAndTheFirstAnswerWins) {
  Open();
  BeLate();
  ASSERT_NE(second_, 0);
  EXPECT_EQ(fake_->calls().at(second_).server, fast_);
  EXPECT_LE(fake_->calls().at(second_).steps.step_count, HedgePolicy::kBurst);
  fake_->SendFrame(second_);
  auto batch = NextBatch();
  EXPECT_EQ(loader_->stats().hedge_wins, 1);
  EXPECT_GE(loader_->stats().hedged_steps, 1);

  // What the first server sends of it now reaches nobody.
  ASSERT_THAT(fake_->CallsAt(slow_), Contains(late_)) << "it owes others";
  batch->payload[0] ^= 0xff;
  const uint8_t written = batch->payload[0];
  fake_->SendFrame(late_);
  EXPECT_EQ(batch->payload[0], written);
  EXPECT_EQ(loader_->stats().extra_bytes, batch->payload.size());
  ExpectGoesOn();
}

TEST_F(HedgeTest, AStallInTheMiddleOfABatchIsNoHindrance) {
  Open();
  fake_->SendFrame(late_, 20);
  BeLate();
  ASSERT_NE(second_, 0);
  // Both go on by turns, each into a slot of its own.
  fake_->SendFrame(second_, 30);
  fake_->SendFrame(late_, 20);
  fake_->SendFrame(second_);
  auto batch = NextBatch();
  batch->payload[50] ^= 0xff;
  const std::string kept(batch->payload.begin(), batch->payload.end());
  fake_->SendFrame(late_, 20);
  fake_->SendFrame(late_);
  EXPECT_EQ(std::string(batch->payload.begin(), batch->payload.end()), kept);
  EXPECT_EQ(loader_->stats().extra_bytes, batch->payload.size());
  *batch = HostBatch();
  ExpectGoesOn();
}

TEST_F(HedgeTest, TheSecondRequestIsCancelledWhenTheFirstServerWasFaster) {
  Open();
  BeLate();
  ASSERT_NE(second_, 0);
  fake_->SendFrame(second_, 20);
  fake_->Complete(late_);
  EXPECT_EQ(fake_->calls().count(second_), 0);
  EXPECT_EQ(loader_->stats().hedge_wins, 0);
  EXPECT_EQ(loader_->stats().extra_bytes, 20);
  for (uint64_t i = 0; i < 4; ++i) ExpectNext();
  ExpectGoesOn();
}

TEST_F(HedgeTest, TheLoserIsCancelledWhenItOwesNothingElse) {
  Open();
  while (fake_->calls().at(late_).left.size() > 1) {
    // Out of order: all but the first one.
    const uint64_t step = fake_->calls().at(late_).left.back();
    fake_->SendBatch(late_, MakeBatch(plan_, {0, step}));
    const_cast<FakeTransport::Call&>(fake_->calls().at(late_)).left.pop_back();
  }
  BeLate();
  ASSERT_NE(second_, 0);
  fake_->SendFrame(second_);
  EXPECT_EQ(fake_->calls().count(late_), 0);
  for (uint64_t i = 0; i < 4; ++i) ExpectNext();
}

TEST_F(HedgeTest, ADamagedAnswerDoesNotSpoilTheOther) {
  options_.verify_payload = true;
  Open();
  BeLate();
  ASSERT_NE(second_, 0);
  fake_->SendFrame(second_, 30);
  FakeBatch damaged = MakeBatch(plan_, {0, next_});
  damaged.payload[3] ^= 1;
  fake_->SendBatch(late_, damaged);
  EXPECT_EQ(fake_->calls().count(late_), 0) << "damaged, but goes on";
  fake_->SendFrame(second_);
  ExpectNext();
  // The rest is asked of the other server; nothing is lost.
  fake_->Tick();
  TakeAll();
  EXPECT_GE(next_, 5 * kWindow);
}

TEST_F(HedgeTest, ASecondAnswerThatCannotBeReadDoesNotSpoilTheFirst) {
  for (const bool by_transport : {false, true}) {
    SCOPED_TRACE(by_transport);
    states_.clear();
    allocator_->slots = 0;
    next_ = 0;
    Open();
    BeLate();
    ASSERT_NE(second_, 0);
    if (by_transport) {
      fake_->End(second_, absl::DataLossError("a frame that cannot be read"));
    } else {
      FakeBatch damaged = MakeBatch(plan_, {0, next_});
      damaged.header.mutable_tensors(0)->set_offset(1 << 20);
      fake_->SendBatch(second_, damaged);
    }
    EXPECT_EQ(fake_->calls().count(second_), 0);
    ASSERT_EQ(fake_->calls().count(late_), 1);
    fake_->Complete(late_);
    ExpectNext();
    ExpectGoesOn();
  }
}

TEST_F(HedgeTest, AServerThatCannotReadASampleIsNotLeftOut) {
  Open();
  BeLate();
  ASSERT_NE(second_, 0);
  fake_->End(second_, WithErrorDetail(absl::DataLossError("no image"),
                                      MakeErrorDetail("decode")));
  EXPECT_EQ(loader_->stats().servers, 2);
  ASSERT_EQ(fake_->calls().count(late_), 1);
  fake_->Complete(late_);
  ExpectNext();
  ExpectGoesOn();
}

// The second request is for two steps, of which the first server brings one. An
// error about that one's samples was taken for the other step's own.
TEST_F(HedgeTest, AnErrorThatMayBeOfADeliveredStepIsNotFinalForAnother) {
  // The consumer needs only the first two of the four late steps soon.
  Open(2, absl::Milliseconds(25));
  BeLate();
  ASSERT_NE(second_, 0);
  ASSERT_EQ(fake_->calls().at(late_).steps.step_count, 4);
  ASSERT_EQ(fake_->calls().at(second_).steps.step_count, 2);
  const absl::Status no_image = WithErrorDetail(absl::DataLossError("no image"),
                                                MakeErrorDetail("decode"));
  fake_->SendFrame(late_);
  fake_->End(late_, no_image);
  ASSERT_EQ(fake_->calls().count(second_), 1);
  fake_->End(second_, no_image);
  time_ += absl::Seconds(3);  // more than the servers' backoff
  fake_->Tick();
  TakeAll();
  ExpectGoesOn();
}

TEST_F(HedgeTest, WhenNoAnswerCanBeReadThatIsTheEnd) {
  Open();
  BeLate();
  ASSERT_NE(second_, 0);
  fake_->End(second_, absl::DataLossError("a frame that cannot be read"));
  fake_->End(late_, absl::DataLossError("nor can this one"));
  const absl::Status status = loader_->Next().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("nor can this one"));
}

TEST_F(HedgeTest, TheSecondServerMayFailFirst) {
  Open();
  BeLate();
  ASSERT_NE(second_, 0);
  fake_->SendFrame(second_, 30);
  fake_->End(second_, absl::UnavailableError("gone"));
  EXPECT_EQ(loader_->stats().retried_steps, 0) << "the first is under way";
  time_ += absl::Seconds(3);
  ExpectGoesOn();
}

TEST_F(HedgeTest, BothMayFail) {
  Open();
  BeLate();
  ASSERT_NE(second_, 0);
  fake_->SendFrame(late_, 10);
  fake_->SendFrame(second_, 30);
  fake_->End(late_, absl::UnavailableError("gone"));
  fake_->End(second_, absl::UnavailableError("gone"));
  EXPECT_GT(loader_->stats().retried_steps, 0);
  time_ += absl::Seconds(3);
  fake_->Tick();
  ExpectGoesOn();
}

TEST_F(HedgeTest, AServerMayLeaveWithALateStep) {
  Open();
  BeLate();
  ASSERT_NE(second_, 0);
  fake_->SetServers({states_[fast_ - 1]});
  fake_->SendFrame(second_);
  ExpectNext();
  while (!fake_->CallsAt(slow_).empty()) {
    fake_->End(fake_->CallsAt(slow_)[0], absl::UnavailableError("gone"));
  }
  ExpectGoesOn();
}

TEST_F(HedgeTest, AServerThatLostARaceAndStaysSilentIsRelievedOfAllSteps) {
  Open();
  BeLate();
  ASSERT_NE(second_, 0);
  fake_->Complete(second_);
  time_ += absl::Milliseconds(25);
  fake_->Tick();
  // All of the window is there without another word from it, long before
  // anything else would have given it up.
  for (const CallId id : fake_->CallsAt(fast_)) fake_->Complete(id);
  for (uint64_t i = 0; i < kWindow; ++i) ExpectNext();
  fake_->Tick();
  EXPECT_THAT(fake_->CallsAt(slow_), IsEmpty()) << "asked while silent";
  EXPECT_EQ(loader_->stats().retried_steps, 0);
  EXPECT_LE(loader_->stats().hedged_steps, kWindow);
}

TEST_F(HedgeTest, ASilentServerIsRelievedAgainWhenTheSecondOneFails) {
  for (const double share : {0.05, 0.0}) {
    SCOPED_TRACE(share);
    options_.hedge_share = share;
    options_.step_timeout = absl::Seconds(2);
    states_.clear();
    next_ = 0;
    Open();
    BeLate();
    if (share > 0) {
      ASSERT_NE(second_, 0);
      fake_->Complete(second_);
    }
    time_ += share > 0 ? absl::Milliseconds(25) : options_.step_timeout;
    fake_->Tick();
    ASSERT_FALSE(fake_->CallsAt(fast_).empty());
    while (!fake_->CallsAt(fast_).empty()) {
      fake_->End(fake_->CallsAt(fast_)[0], absl::UnavailableError("restarted"));
    }
    // It is back soon, and `slow_` says nothing all the time.
    time_ += absl::Seconds(3);
    fake_->Tick();
    EXPECT_FALSE(fake_->CallsAt(fast_).empty());
    for (const CallId id : fake_->CallsAt(fast_)) fake_->Complete(id);
    for (uint64_t i = 0; i < kWindow; ++i) ExpectNext();
  }
}

TEST_F(HedgeTest, AServerThatIsSilentForLongIsRelievedOfAllSteps) {
  options_.hedge_share = 1e-9;
  Open();
  for (int i = 0; i < 3; ++i) {
    BeLate();
    time_ += absl::Milliseconds(900);
  }
  for (const CallId id : fake_->CallsAt(fast_)) fake_->Complete(id);
  fake_->Tick();
  for (const CallId id : fake_->CallsAt(fast_)) fake_->Complete(id);
  for (uint64_t i = 0; i < kWindow; ++i) ExpectNext();
  EXPECT_GT(loader_->stats().retried_steps + loader_->stats().hedged_steps, 0);
}

// tools/chaos with seed 105, two servers and a step_timeout of 15 s: one was
// frozen, its steps came from the other, its calls were cancelled, and nobody
// noticed that it was back. When the other one froze the client waited for
// that.
TEST_F(HedgeTest, AServerThatWasSilentIsAskedWhenTheOtherFallsSilent) {
  Open();
  time_ += absl::Seconds(2);
  for (const CallId id : fake_->CallsAt(fast_)) fake_->Complete(id);
  fake_->Tick();
  // The other one has all of it. What the silent one owed is not awaited.
  for (const CallId id : fake_->CallsAt(fast_)) fake_->Complete(id);
  EXPECT_THAT(fake_->CallsAt(slow_), IsEmpty());
  for (uint64_t i = 0; i < kWindow; ++i) ASSERT_TRUE(NextBatch().ok());
  fake_->Tick();
  EXPECT_THAT(fake_->CallsAt(slow_), IsEmpty());
  EXPECT_FALSE(fake_->CallsAt(fast_).empty());

  time_ += absl::Seconds(2);  // far less than step_timeout
  fake_->Tick();
  ASSERT_FALSE(fake_->CallsAt(slow_).empty());
  while (!fake_->CallsAt(slow_).empty()) {
    fake_->Complete(fake_->CallsAt(slow_)[0]);
  }
  for (uint64_t i = 0; i < kWindow / 2; ++i) ASSERT_TRUE(NextBatch().ok());
  EXPECT_LE(allocator_->slots, static_cast<int>(kWindow) + 2);
}

TEST_F(HedgeTest, TwoCallsThatHangWithTheSameStepsAreBothReplaced) {
  Open();
  for (const CallId id : fake_->CallsAt(slow_)) {
    if (id != late_) fake_->Complete(id);
  }
  BeLate();
  ASSERT_NE(second_, 0);
  ASSERT_EQ(fake_->calls().at(second_).steps.step_count,
            fake_->calls().at(late_).steps.step_count);
  // Neither sends anything, for longer than a step may take.
  time_ += options_.step_timeout + absl::Seconds(1);
  const size_t asked = fake_->history().size();
  fake_->Tick();
  fake_->Tick();
  ASSERT_GT(fake_->history().size(), asked) << "nobody is asked any more";
  EXPECT_EQ(fake_->history().back().second.first_step, next_);
  std::vector<CallId> anew;
  for (const auto& [id, call] : fake_->calls()) {
    if (id > second_) anew.push_back(id);
  }
  for (const CallId id : anew) fake_->Complete(id);
  ExpectNext();
  ExpectGoesOn();
}

TEST_F(HedgeTest, ACallThatIsGivenUpForAnotherIsNotCountedOnAnyMore) {
  Open();
  for (const CallId id : fake_->CallsAt(slow_)) {
    if (id != late_) fake_->Complete(id);
  }
  BeLate();
  ASSERT_NE(second_, 0);
  time_ += options_.step_timeout - absl::Milliseconds(100);
  fake_->SendFrame(second_, 10);
  time_ += absl::Milliseconds(200);
  fake_->Tick();
  ASSERT_EQ(fake_->calls().count(late_), 0) << "the other one delivers";
  fake_->End(second_, absl::UnavailableError("gone"));
  time_ += absl::Seconds(3);
  fake_->Tick();
  ExpectGoesOn();
}

TEST_F(HedgeTest, NothingIsAskedTwiceOfOneServer) {
  Open(1);
  BeLate();
  EXPECT_EQ(second_, 0);
  EXPECT_EQ(loader_->stats().hedged_steps, 0);
}

TEST_F(HedgeTest, AServerThatIsLateItselfIsNotAsked) {
  Open();
  time_ += absl::Milliseconds(100);
  const size_t asked = fake_->history().size();
  fake_->Tick();
  EXPECT_THAT(fake_->history(), SizeIs(asked));
  EXPECT_EQ(loader_->stats().hedged_steps, 0);
}

TEST_F(HedgeTest, WhatIsNotNeededSoonWaits) {
  Open(2, absl::Milliseconds(50));
  // Only the last call of the window is late: the consumer comes to it in 12
  // batches of its own.
  time_ += absl::Milliseconds(100);
  CallId last = 0;
  for (const auto& [id, call] : fake_->calls()) {
    if (call.steps.first_step > next_) last = id;
  }
  ASSERT_NE(last, 0);
  std::vector<CallId> others;
  for (const auto& [id, call] : fake_->calls()) {
    if (id != last) others.push_back(id);
  }
  for (const CallId id : others) fake_->Complete(id);
  fake_->Tick();
  EXPECT_EQ(loader_->stats().hedged_steps, 0);
  for (int i = 0; i < 12; ++i) {
    ExpectNext();
    time_ += absl::Milliseconds(50);
  }
  // Now the other server has to be idle, not late.
  std::vector<CallId> idle;
  for (const auto& [id, call] : fake_->calls()) {
    if (id != last) idle.push_back(id);
  }
  for (const CallId id : idle) fake_->Complete(id);
  fake_->Tick();
  EXPECT_GT(loader_->stats().hedged_steps, 0);
}

TEST_F(HedgeTest, AShareOfZeroTurnsItOff) {
  options_.hedge_share = 0;
  Open();
  BeLate();
  EXPECT_EQ(second_, 0);
  EXPECT_EQ(loader_->stats().hedged_steps, 0);
}

// --- the policy -------------------------------------------------------------

TEST(HedgePolicyTest, LateIsWhatNearlyNoStepTook) {
  HedgePolicy policy(0.05, absl::Milliseconds(1));
  for (size_t i = 0; i < HedgePolicy::kEnough - 1; ++i) {
    policy.Delivered(absl::Milliseconds(10));
  }
  EXPECT_EQ(policy.Delay(), absl::InfiniteDuration()) << "too little is known";
  for (size_t i = 0; i < HedgePolicy::kMemory; ++i) {
    policy.Delivered(absl::Milliseconds(i % 10 == 0 ? 20 : 10));
  }
  EXPECT_EQ(policy.Delay(), absl::Milliseconds(30));
  for (size_t i = 0; i < HedgePolicy::kMemory; ++i) {
    policy.Delivered(absl::Milliseconds(i % 10 == 0 ? 500 : 10));
  }
  EXPECT_EQ(policy.Delay(), absl::Milliseconds(40)) << "no slow step is usual";
  for (size_t i = 0; i < HedgePolicy::kMemory; ++i) {
    policy.Delivered(absl::Microseconds(10));
  }
  EXPECT_EQ(policy.Delay(), absl::Milliseconds(1)) << "the floor";
}

TEST(HedgePolicyTest, AShareOfTheStepsPaysForSecondRequests) {
  HedgePolicy policy(0.05, absl::ZeroDuration());
  EXPECT_EQ(policy.Affordable(), HedgePolicy::kBurst);
  policy.Spend(10);
  EXPECT_EQ(policy.Affordable(), 0);
  for (int i = 0; i < 139; ++i) policy.Delivered(absl::Milliseconds(1));
  EXPECT_EQ(policy.Affordable(), 0) << "6 were not paid for, and 1 is needed";
  for (int i = 0; i < 2; ++i) policy.Delivered(absl::Milliseconds(1));
  EXPECT_EQ(policy.Affordable(), 1);
  for (int i = 0; i < 1000; ++i) policy.Delivered(absl::Milliseconds(1));
  EXPECT_EQ(policy.Affordable(), HedgePolicy::kBurst);
}

}  // namespace
}  // namespace millrace::prefetch
