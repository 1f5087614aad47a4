// Going to another position without opening anew, and what lies at the borders
// of epochs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/prefetch/prefetch_loader.h"
#include "proto/error_detail.h"
#include "tests/client/prefetch/fake_transport.h"

namespace millrace::prefetch {
namespace {

using ::millrace::testing::FakeTransport;
using ::millrace::testing::MakeBatch;
using ::millrace::testing::MakePlan;
using ::testing::HasSubstr;

class SeekTest : public ::testing::Test {
 protected:
  SeekTest() {
    options_.endpoint = "test:1";
    options_.window = 8;
  }

  void Open(uint64_t steps) {
    plan_ = MakePlan(steps);
    auto transport = std::make_unique<FakeTransport>(plan_);
    fake_ = transport.get();
    fake_->SetServers({{1, "a", true}, {2, "b", true}});
    auto loader = NewPrefetchLoader(options_, plan_, std::move(transport),
                                    time_, [this] { return time_; });
    ASSERT_TRUE(loader.ok()) << loader.status();
    loader_ = *std::move(loader);
  }

  HostBatch ExpectNext(Position position) {
    absl::StatusOr<HostBatch> batch = loader_->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok()) return {};
    EXPECT_EQ(batch->position, position);
    EXPECT_EQ(std::string(batch->payload.begin(), batch->payload.end()),
              MakeBatch(plan_, position).payload);
    return *std::move(batch);
  }

  void CompleteAll() {
    while (!fake_->calls().empty()) {
      fake_->Complete(fake_->calls().begin()->first);
    }
  }

  void Seek(Position position) {
    const absl::Status status = loader_->Seek(position);
    ASSERT_TRUE(status.ok()) << status;
    fake_->Tick();  // it has asked for one
  }

  absl::Time time_ = absl::UnixEpoch();
  HostLoaderOptions options_;
  OpenResponse plan_;
  FakeTransport* fake_ = nullptr;
  std::unique_ptr<HostLoader> loader_;
};

TEST_F(SeekTest, GoesOnAtThePositionAndDropsWhatIsUnderWay) {
  Open(100);
  const CallId before = fake_->calls().begin()->first;
  fake_->SendFrame(before);      // whole: step 0
  fake_->SendFrame(before, 10);  // in part: step 1
  HostBatch held = ExpectNext({0, 0});
  EXPECT_EQ(held.generation, 0);
  const int wakes = fake_->wakes();
  ASSERT_TRUE(loader_->Seek({0, 50}).ok());
  EXPECT_GT(fake_->wakes(), wakes);
  EXPECT_EQ(loader_->position(), (Position{0, 50}));
  fake_->Tick();
  for (const auto& [id, call] : fake_->calls()) {
    EXPECT_GE(call.steps.first_step, 50) << "a call of before goes on";
  }
  CompleteAll();
  for (uint64_t step = 50; step < 57; ++step) {
    EXPECT_EQ(ExpectNext({0, step}).generation, 1);
  }
  EXPECT_EQ(loader_->stats().open_slots, 1);
  EXPECT_EQ(std::string(held.payload.begin(), held.payload.end()),
            MakeBatch(plan_, {0, 0}).payload)
      << "a batch that is held keeps its bytes";
}

TEST_F(SeekTest, FramesOfBeforeReachNobody) {
  Open(100);
  const CallId before = fake_->calls().begin()->first;
  fake_->SendFrame(before, 10);
  ASSERT_TRUE(loader_->Seek({0, 0}).ok());
  // The transport does not know yet.
  fake_->SendFrame(before);
  EXPECT_EQ(fake_->calls().count(before), 0);
  fake_->Tick();
  CompleteAll();
  for (uint64_t step = 0; step < 8; ++step) ExpectNext({0, step});
}

TEST_F(SeekTest, GoesBackAndForthAndNoSlotIsLost) {
  options_.epochs = 3;
  Open(20);
  uint64_t state = 1;
  for (int i = 0; i < 200; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const Position position = {(state >> 33) % 3, (state >> 40) % 20};
    Seek(position);
    // Some whole, some in part.
    std::vector<CallId> calls;
    for (const auto& [id, call] : fake_->calls()) calls.push_back(id);
    for (const CallId id : calls) fake_->SendFrame(id, 1 + (state >> 50) % 90);
    if ((state >> 35) % 2 == 0) continue;
    CompleteAll();
    ExpectNext(position);
  }
}

TEST_F(SeekTest, AfterTheLastBatchTheLoaderMayGoBack) {
  Open(4);
  CompleteAll();
  for (uint64_t step = 0; step < 4; ++step) ExpectNext({0, step});
  EXPECT_TRUE(absl::IsOutOfRange(loader_->Next().status()));
  Seek({0, 2});
  CompleteAll();
  ExpectNext({0, 2});
  ExpectNext({0, 3});
  EXPECT_TRUE(absl::IsOutOfRange(loader_->Next().status()));
}

TEST_F(SeekTest, AFinalErrorEndsWithTheSeek) {
  Open(20);
  // Each step is requested once more.
  for (int i = 0; i < 2; ++i) {
    while (!fake_->calls().empty()) {
      fake_->End(fake_->calls().begin()->first,
                 WithErrorDetail(absl::DataLossError("no image"),
                                 MakeErrorDetail("decode")));
    }
    time_ += absl::Seconds(3);  // more than the servers' backoff
    fake_->Tick();
  }
  EXPECT_TRUE(absl::IsDataLoss(loader_->Next().status()));
  EXPECT_TRUE(absl::IsDataLoss(loader_->Next().status()));
  Seek({0, 1});
  CompleteAll();
  for (uint64_t step = 1; step < 9; ++step) ExpectNext({0, step});
}

TEST_F(SeekTest, TheEndIsAPositionAndWhatLiesBehindIsRefused) {
  options_.start = {4, 2};
  options_.epochs = 2;  // 4 and 5
  Open(10);
  absl::Status status = loader_->Seek({4, 11});
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("epoch 4 step 11"));
  EXPECT_THAT(status.message(), HasSubstr("10 steps"));
  for (const Position position : {Position{6, 1}, Position{7, 0}}) {
    status = loader_->Seek(position);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("2 epochs from epoch 4"));
  }
  CompleteAll();
  ExpectNext({4, 2});  // nothing has changed
  for (const Position position : {Position{6, 0}, Position{5, 10}}) {
    Seek(position);
    EXPECT_TRUE(absl::IsOutOfRange(loader_->Next().status()));
    EXPECT_EQ(loader_->position(), (Position{6, 0}));
  }
  // Before the start there is something, too.
  Seek({1, 9});
  CompleteAll();
  ExpectNext({1, 9});
  EXPECT_EQ(loader_->position(), (Position{2, 0}));
}

TEST_F(SeekTest, ItTakesNoLongerWithManySamples) {
  options_.epochs = 0;
  constexpr uint64_t kSteps = 333'333'333;  // of 3: 10^9 samples
  Open(kSteps);
  for (int i = 0; i < 1000; ++i) {
    Seek({static_cast<uint64_t>(i), kSteps - 1 - i});
    ASSERT_LE(fake_->calls().size(), 8) << "asks for more than a window";
  }
  CompleteAll();
  ExpectNext({999, kSteps - 1000});
}

TEST_F(SeekTest, AClosedLoaderGoesNowhere) {
  Open(4);
  loader_->Close();
  EXPECT_TRUE(absl::IsCancelled(loader_->Seek({0, 1})));
}

TEST_F(SeekTest, TheNextEpochIsUnderWayBeforeTheLastBatchIsTaken) {
  options_.epochs = 3;
  Open(20);
  for (uint64_t step = 0; step < 19; ++step) {
    if (step % 4 == 0) {
      fake_->Tick();
      CompleteAll();
    }
    ExpectNext({0, step});
  }
  fake_->Tick();
  uint64_t of_next = 0;
  for (const auto& [server, steps] : fake_->history()) {
    if (steps.epoch == 1) of_next += steps.step_count;
  }
  EXPECT_EQ(loader_->position(), (Position{0, 19}));
  EXPECT_GE(of_next, 3) << "the border of epochs is a place to wait";
  CompleteAll();
  ExpectNext({0, 19});
  ExpectNext({1, 0});
}

}  // namespace
}  // namespace millrace::prefetch
