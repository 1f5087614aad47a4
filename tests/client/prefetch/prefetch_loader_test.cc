// One step after the other, moved by hand: what is asked where, and what the
// consumer gets.

#include "client/prefetch/prefetch_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/prefetch/connection_doubt.h"
#include "proto/error_detail.h"
#include "tests/client/prefetch/fake_transport.h"

namespace millrace::prefetch {
namespace {

using ::millrace::testing::FakeBatch;
using ::millrace::testing::FakeTransport;
using ::millrace::testing::MakeBatch;
using ::millrace::testing::MakePlan;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// A batch of `position` with a header that does not fit the plan.
FakeBatch Damaged(const OpenResponse& plan, Position position) {
  FakeBatch batch = MakeBatch(plan, position);
  batch.header.mutable_tensors(0)->set_offset(1 << 20);
  return batch;
}

class PrefetchLoaderTest : public ::testing::Test {
 protected:
  PrefetchLoaderTest() {
    options_.endpoint = "test:1";
    options_.window = 8;
    // A wait of the fake clock's: each look at it takes 1 ms.
    options_.next_timeout = absl::Milliseconds(50);
  }

  void Open(uint64_t steps, std::vector<ServerState> servers) {
    plan_ = MakePlan(steps);
    auto transport = std::make_unique<FakeTransport>(plan_);
    fake_ = transport.get();
    fake_->SetServers(std::move(servers));
    auto loader =
        NewPrefetchLoader(options_, plan_, std::move(transport), time_,
                          [this] { return time_ += absl::Milliseconds(1); });
    ASSERT_TRUE(loader.ok()) << loader.status();
    loader_ = *std::move(loader);
  }

  void ExpectNext(Position position) {
    absl::StatusOr<HostBatch> batch = loader_->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->position, position);
    const FakeBatch expected = MakeBatch(plan_, position);
    EXPECT_EQ(std::string(batch->payload.begin(), batch->payload.end()),
              expected.payload);
    EXPECT_EQ(batch->header.SerializeAsString(),
              expected.header.SerializeAsString());
  }

  void CompleteAll() {
    while (!fake_->calls().empty()) {
      fake_->Complete(fake_->calls().begin()->first);
    }
  }

  // A call whose range has the step.
  CallId CallFor(uint64_t step) {
    for (const auto& [id, call] : fake_->calls()) {
      if (step - call.steps.first_step < call.steps.step_count) return id;
    }
    ADD_FAILURE() << "no call for step " << step;
    return 0;
  }

  // The status of Next() when `send` answers the call for the step, and again
  // the call that requests it once more.
  absl::Status AfterTwice(uint64_t step,
                          const std::function<void(CallId)>& send) {
    for (int i = 0; i < 2; ++i) {
      send(CallFor(step));
      time_ += absl::Seconds(3);  // more than the server's backoff
      fake_->Tick();
    }
    return loader_->Next().status();
  }

  // The only call at `server`.
  CallId CallAt(ServerId server) {
    const std::vector<CallId> calls = fake_->CallsAt(server);
    EXPECT_THAT(calls, SizeIs(1));
    return calls.empty() ? 0 : calls[0];
  }

  absl::Time time_ = absl::UnixEpoch() + absl::Hours(1);
  HostLoaderOptions options_;
  OpenResponse plan_;
  FakeTransport* fake_ = nullptr;
  std::unique_ptr<HostLoader> loader_;
};

TEST_F(PrefetchLoaderTest, DeliversAnEpochInOrderAndThenOutOfRange) {
  Open(5, {{1, "a", true}});
  CompleteAll();
  for (uint64_t step = 0; step < 5; ++step) ExpectNext({0, step});
  EXPECT_TRUE(absl::IsOutOfRange(loader_->Next().status()));
  EXPECT_TRUE(absl::IsOutOfRange(loader_->Next().status()));
  EXPECT_EQ(loader_->position(), (Position{1, 0}));
  EXPECT_EQ(loader_->stats().batches, 5);
  EXPECT_EQ(loader_->stats().samples, 15);
}

TEST_F(PrefetchLoaderTest, AsksInRangesOfHalfTheWindowAndNeverBeyondIt) {
  Open(100, {{1, "a", true}});
  ASSERT_THAT(fake_->history(), SizeIs(2));
  EXPECT_EQ(fake_->history()[0].second.step_count, 4);
  EXPECT_EQ(fake_->history()[1].second.first_step, 4);
  EXPECT_EQ(fake_->history()[1].second.step_count, 4);
  CompleteAll();
  // Full: a slow consumer is not served ahead of its window.
  fake_->Tick();
  EXPECT_THAT(fake_->history(), SizeIs(2));
  for (uint64_t step = 0; step < 3; ++step) ExpectNext({0, step});
  fake_->Tick();
  EXPECT_THAT(fake_->history(), SizeIs(2)) << "one call for each free slot";
  const int wakes = fake_->wakes();
  ExpectNext({0, 3});
  EXPECT_GT(fake_->wakes(), wakes);
  fake_->Tick();
  ASSERT_THAT(fake_->history(), SizeIs(3));
  EXPECT_EQ(fake_->history()[2].second.step_count, 4);
}

TEST_F(PrefetchLoaderTest, SpreadsStepsOverServersInSmallerRanges) {
  Open(100, {{1, "a", true}, {2, "b", true}});
  ASSERT_THAT(fake_->history(), SizeIs(4));
  for (const auto& [server, steps] : fake_->history()) {
    EXPECT_EQ(steps.step_count, 2);
  }
  EXPECT_THAT(fake_->CallsAt(1), SizeIs(2));
  EXPECT_THAT(fake_->CallsAt(2), SizeIs(2));
}

TEST_F(PrefetchLoaderTest, HandsOutInOrderWhatArrivesOutOfOrder) {
  Open(8, {{1, "a", true}, {2, "b", true}});
  std::vector<CallId> calls;
  for (const auto& [id, call] : fake_->calls()) calls.insert(calls.begin(), id);
  for (const CallId id : calls) fake_->Complete(id);
  for (uint64_t step = 0; step < 8; ++step) ExpectNext({0, step});
}

TEST_F(PrefetchLoaderTest, PrefetchesOverTheBorderOfEpochs) {
  options_.epochs = 2;
  Open(3, {{1, "a", true}});
  EXPECT_EQ(fake_->history()[1].second.epoch, 1)
      << "a call stays within an epoch, the window does not";
  CompleteAll();
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (uint64_t step = 0; step < 3; ++step) ExpectNext({epoch, step});
  }
  EXPECT_TRUE(absl::IsOutOfRange(loader_->Next().status()));
}

TEST_F(PrefetchLoaderTest, ResumesInTheMiddleOfAnEpoch) {
  options_.start = {4, 2};
  options_.epochs = 2;
  Open(3, {{1, "a", true}});
  EXPECT_EQ(loader_->position(), (Position{4, 2}));
  CompleteAll();
  ExpectNext({4, 2});
  EXPECT_EQ(loader_->position(), (Position{5, 0}));
  for (uint64_t step = 0; step < 3; ++step) ExpectNext({5, step});
  EXPECT_TRUE(absl::IsOutOfRange(loader_->Next().status()));
}

TEST_F(PrefetchLoaderTest, TheEndOfAnEpochIsTheStartOfTheNextOne) {
  options_.start = {4, 3};
  options_.epochs = 1;
  Open(3, {{1, "a", true}});
  EXPECT_TRUE(absl::IsOutOfRange(loader_->Next().status()))
      << "epoch 4 was delivered";
}

TEST_F(PrefetchLoaderTest, RefusesAStartPastTheEndOfTheEpoch) {
  options_.start = {0, 4};
  auto loader =
      NewPrefetchLoader(options_, MakePlan(3),
                        std::make_unique<FakeTransport>(MakePlan(3)), time_);
  ASSERT_TRUE(absl::IsInvalidArgument(loader.status()));
  EXPECT_THAT(loader.status().message(), HasSubstr("start step 4"));
}

TEST_F(PrefetchLoaderTest, ASlotServesAgainOnlyWhenItsLastLeaseHasDied) {
  options_.window = 4;
  Open(100, {{1, "a", true}});
  CompleteAll();
  std::vector<HostBatch> held;
  for (int i = 0; i < 4; ++i) {
    auto batch = loader_->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    held.push_back(*std::move(batch));
  }
  fake_->Tick();
  EXPECT_TRUE(fake_->calls().empty());
  EXPECT_EQ(loader_->stats().open_slots, 4);
  const absl::Status status = loader_->Next().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("all 4 slots are held"));

  // Another copy of the lease keeps the slot.
  std::shared_ptr<void> copy = held[1].lease;
  held[1] = HostBatch();
  fake_->Tick();
  EXPECT_TRUE(fake_->calls().empty());
  const uint8_t* address = static_cast<uint8_t*>(copy.get());
  const int wakes = fake_->wakes();
  copy.reset();
  EXPECT_GT(fake_->wakes(), wakes) << "a free slot is worth a question";
  fake_->Tick();
  CompleteAll();
  auto batch = loader_->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->payload.data(), address);
  const FakeBatch first = MakeBatch(plan_, {0, 0});
  EXPECT_EQ(std::string(held[0].payload.begin(), held[0].payload.end()),
            first.payload)
      << "a batch that is held keeps its bytes";
}

// Memory for batches of MakePlan(), 64-byte aligned.
struct alignas(64) Buffer {
  uint8_t bytes[256] = {};
};

TEST_F(PrefetchLoaderTest, FillsLentMemoryOnceAndNeverAgain) {
  options_.offered = std::make_shared<OfferedSlots>();
  Open(100, {{1, "a", true}});
  EXPECT_TRUE(fake_->calls().empty()) << "nothing is lent";
  EXPECT_EQ(options_.offered->Wanted(loader_->window()), 9) << "1 is a spare";
  absl::Status status = loader_->Next().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("has offered no memory"));

  std::vector<Buffer> buffers(9);
  const int wakes = fake_->wakes();
  for (Buffer& buffer : buffers) {
    ASSERT_TRUE(options_.offered->Offer(buffer.bytes, 256).ok());
  }
  EXPECT_GT(fake_->wakes(), wakes) << "memory is worth a question";
  EXPECT_EQ(options_.offered->Wanted(loader_->window()), 0);
  fake_->Tick();
  CompleteAll();
  std::vector<std::string> payloads;
  for (uint64_t step = 0; step < 8; ++step) {
    ExpectNext({0, step});
    payloads.push_back(MakeBatch(plan_, {0, step}).payload);
  }
  // Their leases are dead. One buffer is left, as large a window as that.
  fake_->Tick();
  ASSERT_THAT(fake_->calls(), SizeIs(1));
  EXPECT_EQ(fake_->calls().begin()->second.steps.step_count, 1);
  CompleteAll();
  ExpectNext({0, 8});
  payloads.push_back(MakeBatch(plan_, {0, 8}).payload);
  fake_->Tick();
  EXPECT_TRUE(fake_->calls().empty());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const uint8_t* const bytes = buffers[buffers.size() - 1 - i].bytes;
    EXPECT_EQ(std::string(bytes, bytes + payloads[i].size()), payloads[i])
        << "the buffer that was offered last is filled first";
  }
  // The same buffers, lent again.
  for (Buffer& buffer : buffers) {
    ASSERT_TRUE(options_.offered->Offer(buffer.bytes, 256).ok());
  }
  fake_->Tick();
  CompleteAll();
  for (uint64_t step = 9; step < 17; ++step) ExpectNext({0, step});
}

TEST_F(PrefetchLoaderTest, ASeekUsesLentMemoryThatNobodyHasSeenAgain) {
  options_.offered = std::make_shared<OfferedSlots>();
  Open(100, {{1, "a", true}});
  std::vector<Buffer> buffers(9);
  for (Buffer& buffer : buffers) {
    ASSERT_TRUE(options_.offered->Offer(buffer.bytes, 256).ok());
  }
  fake_->Tick();
  CompleteAll();
  ASSERT_TRUE(loader_->Seek({0, 50}).ok());
  EXPECT_EQ(options_.offered->count(), 9);
  fake_->Tick();
  CompleteAll();
  for (uint64_t step = 50; step < 58; ++step) ExpectNext({0, step});
  EXPECT_EQ(options_.offered->count(), 1);
}

TEST_F(PrefetchLoaderTest, LentMemoryIsTheCallersAfterAClose) {
  options_.offered = std::make_shared<OfferedSlots>();
  Open(100, {{1, "a", true}});
  Buffer buffer;
  ASSERT_TRUE(options_.offered->Offer(buffer.bytes, 256).ok());
  fake_->Tick();
  loader_->Close();
  EXPECT_EQ(options_.offered->count(), 0);
  EXPECT_TRUE(absl::IsCancelled(options_.offered->Offer(buffer.bytes, 256)));
}

TEST_F(PrefetchLoaderTest, RefusesLentMemoryTogetherWithAnother) {
  options_.offered = std::make_shared<OfferedSlots>();
  options_.read_only_payload = true;
  const auto loader =
      NewPrefetchLoader(options_, MakePlan(3),
                        std::make_unique<FakeTransport>(MakePlan(3)), time_);
  EXPECT_TRUE(absl::IsInvalidArgument(loader.status())) << loader.status();
}

TEST_F(PrefetchLoaderTest, BatchesOutliveTheLoader) {
  Open(2, {{1, "a", true}});
  CompleteAll();
  auto batch = loader_->Next();
  ASSERT_TRUE(batch.ok());
  loader_.reset();
  EXPECT_EQ(std::string(batch->payload.begin(), batch->payload.end()),
            MakeBatch(plan_, {0, 0}).payload);
}

TEST_F(PrefetchLoaderTest, AsksElsewhereWhatAFailedServerDidNotDeliver) {
  Open(8, {{1, "a", true}, {2, "b", true}});
  const CallId failing = fake_->CallsAt(1)[0];
  ASSERT_EQ(fake_->calls().at(failing).steps.first_step, 0);
  fake_->SendFrame(failing);      // step 0 whole
  fake_->SendFrame(failing, 10);  // step 1 in part
  fake_->End(failing, absl::UnavailableError("gone"));
  const auto& [server, steps] = fake_->history().back();
  EXPECT_EQ(server, 2);
  EXPECT_EQ(steps.first_step, 1);
  EXPECT_EQ(steps.step_count, 1);
  CompleteAll();
  for (uint64_t step = 0; step < 8; ++step) ExpectNext({0, step});
  EXPECT_EQ(loader_->stats().retried_steps, 1);
}

TEST_F(PrefetchLoaderTest, AStreamThatEndsEarlyIsAFailure) {
  Open(4, {{1, "a", true}, {2, "b", true}});
  fake_->End(fake_->CallsAt(1)[0], absl::OkStatus());
  CompleteAll();
  for (uint64_t step = 0; step < 4; ++step) ExpectNext({0, step});
  EXPECT_GT(loader_->stats().retried_steps, 0);
}

TEST_F(PrefetchLoaderTest, WaitsOutTheBackoffOfTheOnlyServer) {
  Open(4, {{1, "a", true}});
  const CallId call = fake_->CallsAt(1)[0];
  while (!fake_->calls().empty()) {
    fake_->End(fake_->calls().begin()->first, absl::UnavailableError("gone"));
  }
  EXPECT_TRUE(fake_->calls().empty()) << "asked again without a pause";
  time_ += absl::Seconds(3);
  fake_->Tick();
  EXPECT_FALSE(fake_->calls().empty());
  EXPECT_EQ(fake_->calls().count(call), 0);
  CompleteAll();
  for (uint64_t step = 0; step < 4; ++step) ExpectNext({0, step});
}

TEST_F(PrefetchLoaderTest, TheCallsOfOneLostConnectionAreOneFailure) {
  options_.epochs = 100;
  Open(1, {{1, "a", true}});  // a call for each epoch
  const size_t calls = fake_->calls().size();
  ASSERT_GE(calls, 5);
  for (int loss = 0; loss < 2; ++loss) {
    while (!fake_->calls().empty()) {
      fake_->End(fake_->calls().begin()->first, absl::UnavailableError("gone"));
    }
    // 50 ms at most, and then 100; 5 failures in a row would be 400.
    time_ += absl::Milliseconds(200);
    fake_->Tick();
    ASSERT_EQ(fake_->calls().size(), calls);
  }
  CompleteAll();
  for (uint64_t epoch = 0; epoch < calls; ++epoch) ExpectNext({epoch, 0});
}

TEST_F(PrefetchLoaderTest, HonoursTheDelayOfABusyServer) {
  Open(2, {{1, "a", true}});
  ErrorDetail detail = MakeErrorDetail("rpc");
  detail.set_retry_delay_ms(60'000);
  while (!fake_->calls().empty()) {
    fake_->End(fake_->calls().begin()->first,
               WithErrorDetail(absl::ResourceExhaustedError("full"), detail));
  }
  time_ += absl::Seconds(50);
  fake_->Tick();
  EXPECT_TRUE(fake_->calls().empty());
  time_ += absl::Seconds(60);
  fake_->Tick();
  CompleteAll();
  ExpectNext({0, 0});
  ExpectNext({0, 1});
}

TEST_F(PrefetchLoaderTest, ResourceExhaustedWithoutADelayIsFinal) {
  Open(2, {{1, "a", true}});
  fake_->End(fake_->CallsAt(1)[0], absl::ResourceExhaustedError("too large"));
  EXPECT_TRUE(absl::IsResourceExhausted(loader_->Next().status()));
}

TEST_F(PrefetchLoaderTest, AnErrorIsFinalNamesTheServerAndKeepsItsDetail) {
  Open(8, {{1, "data-1:7001", true}});
  const CallId call = fake_->CallsAt(1)[0];
  fake_->SendFrame(call);
  ErrorDetail detail = MakeErrorDetail("decode");
  detail.set_shard("part-3");
  const absl::Status no_image =
      WithErrorDetail(absl::DataLossError("no image"), detail);
  fake_->End(call, no_image);
  time_ += absl::Seconds(3);  // more than the server's backoff
  fake_->Tick();
  fake_->End(CallFor(1), no_image);
  ExpectNext({0, 0});  // what is whole is handed out first
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = loader_->Next().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("data-1:7001"));
    EXPECT_THAT(status.message(), HasSubstr("no image"));
    EXPECT_EQ(GetErrorDetail(status).stage(), "decode");
    EXPECT_EQ(GetErrorDetail(status).shard(), "part-3");
  }
  EXPECT_TRUE(fake_->calls().empty()) << "calls go on after the error";
}

TEST_F(PrefetchLoaderTest, ADamagedAnswerIsAskedOfAnotherServer) {
  for (const bool by_transport : {false, true}) {
    SCOPED_TRACE(by_transport);
    Open(8, {{1, "data-1:7001", true}, {2, "b", true}});
    const CallId call = fake_->CallsAt(1)[0];
    ASSERT_EQ(fake_->calls().at(call).steps.first_step, 0);
    fake_->SendFrame(call);  // step 0 is whole
    ::testing::internal::CaptureStderr();
    if (by_transport) {
      fake_->End(call, absl::DataLossError("a frame that cannot be read"));
    } else {
      fake_->SendBatch(call, Damaged(plan_, {0, 1}));
    }
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("server data-1:7001: "),
                      HasSubstr("from another server")));
    const auto& [server, steps] = fake_->history().back();
    EXPECT_EQ(server, 2);
    EXPECT_EQ(steps.first_step, 1);
    CompleteAll();
    for (uint64_t step = 0; step < 8; ++step) ExpectNext({0, step});
    EXPECT_EQ(loader_->stats().retried_steps, 1);
  }
}

TEST_F(PrefetchLoaderTest, ADigestThatDoesNotMatchIsAskedOfAnotherServer) {
  options_.verify_payload = true;
  Open(2, {{1, "data-1:7001", true}, {2, "b", true}});
  FakeBatch damaged = MakeBatch(plan_, {0, 0});
  damaged.payload[0] ^= 1;
  ASSERT_EQ(fake_->calls().at(CallAt(1)).steps.first_step, 0);
  fake_->SendBatch(CallAt(1), damaged);
  ASSERT_EQ(fake_->history().back().first, 2);
  ASSERT_EQ(fake_->history().back().second.first_step, 0);
  CompleteAll();
  ExpectNext({0, 0});
  ExpectNext({0, 1});
}

TEST_F(PrefetchLoaderTest, AStepThatIsDamagedTwiceIsTheEnd) {
  Open(8, {{1, "a", true}, {2, "data-2:7001", true}});
  fake_->SendBatch(fake_->CallsAt(1)[0], Damaged(plan_, {0, 0}));
  ASSERT_EQ(fake_->history().back().second.first_step, 0);
  fake_->SendBatch(fake_->CallsAt(2).back(), Damaged(plan_, {0, 0}));
  const absl::Status status = loader_->Next().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("data-2:7001"), HasSubstr("epoch 0 step 0"),
                    HasSubstr("damaged 2 times")));
}

// One flipped bit ended a job with one server.
TEST_F(PrefetchLoaderTest, ADamagedAnswerOfTheOnlyServerIsRequestedAgainOnce) {
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again);
    Open(8, {{1, "data-1:7001", true}});
    ::testing::internal::CaptureStderr();
    fake_->SendBatch(CallFor(0), Damaged(plan_, {0, 0}));
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("server data-1:7001: "),
                      HasSubstr("requested once more from the same server")));
    fake_->SendBatch(CallFor(5), Damaged(plan_, {0, 5}));  // has its own try
    time_ += absl::Seconds(3);
    fake_->Tick();
    if (!again) {
      CompleteAll();
      for (uint64_t step = 0; step < 8; ++step) ExpectNext({0, step});
      continue;
    }
    fake_->SendBatch(CallFor(0), Damaged(plan_, {0, 0}));
    const absl::Status status = loader_->Next().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("server data-1:7001: "),
                                        HasSubstr("epoch 0 step 0"),
                                        HasSubstr("damaged 2 times")));
    EXPECT_TRUE(fake_->calls().empty()) << "calls go on after the error";
  }
}

// A bit of a request that was flipped on the way ended the job as if the user
// had been wrong.
TEST_F(PrefetchLoaderTest, ARequestThatWasDamagedIsSentAgain) {
  Open(4, {{1, "data-1:7001", true}});
  ErrorDetail detail = MakeErrorDetail("rpc");
  detail.set_request_damaged(true);
  ::testing::internal::CaptureStderr();
  fake_->End(fake_->CallsAt(1)[0],
             WithErrorDetail(absl::InvalidArgumentError("no request"), detail));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("server data-1:7001: no request; requested once more"));
  time_ += absl::Seconds(3);
  fake_->Tick();
  CompleteAll();
  for (uint64_t step = 0; step < 4; ++step) ExpectNext({0, step});
}

absl::Status NoImage() {
  return WithErrorDetail(absl::DataLossError("no image"),
                         MakeErrorDetail("decode"));
}

// The call of a damaged sample ended all others: earlier batches, whole at the
// server or on the way, were lost.
TEST_F(PrefetchLoaderTest, TheErrorOfASampleComesBehindAllEarlierBatches) {
  options_.window = 16;
  Open(24, {{1, "data-1:7001", true}, {2, "data-2:7001", true}});
  const CallId first = CallFor(0);
  const CallId second = CallFor(4);
  ASSERT_NE(first, second);
  ASSERT_EQ(fake_->calls().at(second).steps.first_step, 4);
  ASSERT_EQ(fake_->calls().at(second).steps.step_count, 4);
  const ServerId server = fake_->calls().at(second).server;
  // It does not say at which of its steps.
  ::testing::internal::CaptureStderr();
  fake_->End(second, NoImage());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the 4 outstanding steps of the request are requested "
                        "once more, one by one, from another server"));
  for (uint64_t step = 4; step < 8; ++step) {
    EXPECT_EQ(fake_->calls().at(CallFor(step)).steps.step_count, 1);
    EXPECT_NE(fake_->calls().at(CallFor(step)).server, server);
  }
  fake_->End(CallFor(7), NoImage());
  fake_->Complete(CallFor(5));
  fake_->End(CallFor(6), NoImage());
  EXPECT_TRUE(absl::IsDeadlineExceeded(loader_->Next().status()))
      << "the error came before batch 0, which may still come";
  for (const auto& [id, call] : fake_->calls()) {
    EXPECT_LT(call.steps.first_step, 6) << "is requested for nothing";
  }
  // A server that is lost: what it owes before the error is requested again.
  fake_->End(first, absl::UnavailableError("gone"));
  time_ += absl::Seconds(3);
  fake_->Tick();
  CompleteAll();
  for (uint64_t step = 0; step < 6; ++step) ExpectNext({0, step});
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = loader_->Next().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("no image"));
  }
  EXPECT_TRUE(fake_->calls().empty());
  EXPECT_EQ(loader_->position(), (Position{0, 6}));
  ASSERT_TRUE(loader_->Seek({0, 7}).ok());
  for (uint64_t step = 7; step < 24; ++step) {
    fake_->Tick();
    CompleteAll();
    ExpectNext({0, step});
  }
}

// One server's disk may be damaged.
TEST_F(PrefetchLoaderTest, ASampleThatAnotherServerCanReadIsNoError) {
  Open(2, {{1, "data-1:7001", true}, {2, "data-2:7001", true}});
  const CallId call = CallFor(0);
  const ServerId server = fake_->calls().at(call).server;
  fake_->End(call, NoImage());
  EXPECT_NE(fake_->calls().at(CallFor(0)).server, server);
  CompleteAll();
  ExpectNext({0, 0});
  ExpectNext({0, 1});
}

// The error was dropped without a line.
TEST_F(PrefetchLoaderTest, TheErrorOfASampleThatAnotherCallOwesIsLogged) {
  Open(8, {{1, "data-1:7001", true}, {2, "data-2:7001", true}});
  const CallId late = CallFor(0);
  const ServerId server = fake_->calls().at(late).server;
  while (fake_->calls().size() > 1) {
    const auto other = fake_->calls().begin()->first == late
                           ? std::next(fake_->calls().begin())
                           : fake_->calls().begin();
    fake_->Complete(other->first);
  }
  time_ += options_.step_timeout + absl::Seconds(1);
  ::testing::internal::CaptureStderr();
  fake_->Tick();  // it is silent
  ASSERT_THAT(fake_->calls(), SizeIs(2));
  fake_->End(late, NoImage());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(absl::StrCat("server data-", server,
                                     ":7001: no image; its steps are requested "
                                     "from another server, too")));
  CompleteAll();
  for (uint64_t step = 0; step < 8; ++step) ExpectNext({0, step});
}

// Its calls end quickly, so it always owed the fewest steps: most requests went
// to it first, and then step by step to the other server.
TEST_F(PrefetchLoaderTest, AServerThatReadsNoSampleIsAskedEverMoreRarely) {
  Open(1'000'000, {{1, "a", true}, {2, "b", true}});
  const absl::Time start = time_;
  ::testing::internal::CaptureStderr();
  uint64_t step = 0;
  for (; time_ < start + absl::Seconds(60); ++step) {
    while (!fake_->calls().empty()) {
      const auto& [id, call] = *fake_->calls().begin();
      if (call.server == 2) {
        fake_->Complete(id);
      } else {
        fake_->End(id, NoImage());
      }
    }
    ExpectNext({0, step});
    fake_->Tick();
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 10) << log;
  uint64_t asked = 0;
  for (const auto& [server, steps] : fake_->history()) asked += server == 1;
  EXPECT_GE(asked, 10u) << "it may have been mended";
  EXPECT_LE(asked, 100u) << "for " << step << " steps";
}

TEST_F(PrefetchLoaderTest, AServerWhoseAnswersAreDamagedIsAskedEverMoreRarely) {
  options_.verify_payload = true;
  Open(1'000'000, {{1, "a", true}, {2, "b", true}});
  const absl::Time start = time_;
  ::testing::internal::CaptureStderr();
  for (uint64_t step = 0; time_ < start + absl::Seconds(60); ++step) {
    while (!fake_->calls().empty()) {
      const auto& [id, call] = *fake_->calls().begin();
      if (call.server == 2) {
        fake_->Complete(id);
        continue;
      }
      FakeBatch damaged = MakeBatch(plan_, {0, call.left.front()});
      damaged.payload[0] ^= 1;
      fake_->SendBatch(id, damaged);
    }
    ExpectNext({0, step});
    fake_->Tick();
  }
  ::testing::internal::GetCapturedStderr();
  uint64_t asked = 0;
  for (const auto& [server, steps] : fake_->history()) asked += server == 1;
  EXPECT_GE(asked, 10u) << "it may have been mended";
  EXPECT_LE(asked, 100u);
}

TEST_F(PrefetchLoaderTest, AProxyThatLostTheRouteToTheOnlyServerIsAskedAgain) {
  Open(4, {{1, "data-1:7001", true}});
  ::testing::internal::CaptureStderr();
  for (int round = 0; round < 20; ++round) {
    while (!fake_->calls().empty()) {
      fake_->End(fake_->calls().begin()->first,
                 absl::UnimplementedError("404"));
    }
    time_ += absl::Seconds(3);
    fake_->Tick();
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("server data-1:7001: 404"));
  EXPECT_THAT(log, HasSubstr("16 failures in a row")) << "said once only";
  // Until the consumer's patience ends; what it hears names the reason.
  while (!fake_->calls().empty()) {
    fake_->End(fake_->calls().begin()->first, absl::UnimplementedError("404"));
  }
  const absl::Status status = loader_->Next().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("404"));
  time_ += absl::Seconds(3);
  fake_->Tick();
  CompleteAll();
  for (uint64_t step = 0; step < 4; ++step) ExpectNext({0, step});
}

absl::Status Doubted(absl::Status status, ConnectionDoubt doubt) {
  return WithDoubt(std::move(status), doubt);
}

// One flipped bit in a connection's header table: every later call over it was
// "unknown method", and a good server was left out.
TEST_F(PrefetchLoaderTest, AServerIsLeftOutOnlyWhenANewConnectionFailsToo) {
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again);
    Open(1000, {{1, "data-1:7001", true}, {2, "b", true}});
    uint64_t step = 0;
    const auto fail = [&] {
      ::testing::internal::CaptureStderr();
      while (!fake_->CallsAt(1).empty()) {
        fake_->End(fake_->CallsAt(1)[0],
                   Doubted(absl::UnimplementedError("unknown method"),
                           ConnectionDoubt::kDamaged));
      }
      for (const CallId id : fake_->CallsAt(2)) fake_->Complete(id);
      time_ += absl::Seconds(3);  // more than the server's backoff
      for (int i = 0; i < 4; ++i) ExpectNext({0, step++});
      fake_->Tick();
      return ::testing::internal::GetCapturedStderr();
    };
    EXPECT_THAT(fail(), AllOf(HasSubstr("server data-1:7001: unknown method"),
                              HasSubstr("probably damaged on the way"),
                              HasSubstr("over a new connection"),
                              Not(HasSubstr("is not used"))));
    EXPECT_THAT(fake_->reconnects(), ElementsAre(1))
        << "the calls of one connection are one failure";
    ASSERT_FALSE(fake_->CallsAt(1).empty()) << "it was left out";
    if (!again) {
      CompleteAll();
      EXPECT_EQ(loader_->stats().servers, 2);
      continue;
    }
    EXPECT_THAT(fail(), AllOf(HasSubstr("server data-1:7001 is not used"),
                              HasSubstr("unknown method"),
                              HasSubstr("2 connections in a row"),
                              HasSubstr("the link to it damages bytes")));
    EXPECT_TRUE(fake_->CallsAt(1).empty());
    EXPECT_EQ(loader_->stats().servers, 1);
    // When it is asked again, that goes over a third connection.
    EXPECT_THAT(fake_->reconnects(), ElementsAre(1, 1));
  }
}

TEST_F(PrefetchLoaderTest, TheOnlyServerGetsOneNewConnectionForEachFailure) {
  Open(4, {{1, "data-1:7001", true}});
  ::testing::internal::CaptureStderr();
  for (size_t round = 1; round <= 5; ++round) {
    while (!fake_->calls().empty()) {
      fake_->End(fake_->calls().begin()->first,
                 Doubted(absl::UnavailableError("HTTP status 400"),
                         ConnectionDoubt::kDamaged));
    }
    EXPECT_THAT(fake_->reconnects(), SizeIs(round));
    fake_->Tick();
    EXPECT_TRUE(fake_->calls().empty()) << "asked again without a pause";
    if (round == 5) break;
    time_ += absl::Seconds(3);
    fake_->Tick();
    ASSERT_FALSE(fake_->calls().empty());
  }
  ::testing::internal::GetCapturedStderr();
  const absl::Status status = loader_->Next().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), AllOf(HasSubstr("HTTP status 400"),
                                      HasSubstr("5 connections in a row"),
                                      HasSubstr("damages bytes")));
  time_ += absl::Seconds(3);
  fake_->Tick();
  CompleteAll();
  for (uint64_t step = 0; step < 4; ++step) ExpectNext({0, step});
}

// A call on the old connection says nothing of the new one.
TEST_F(PrefetchLoaderTest, ACallOfAnOlderConnectionDoesNotEndTheNewOne) {
  Open(8, {{1, "a", true}});
  ASSERT_THAT(fake_->CallsAt(1), SizeIs(2));
  const absl::Status unknown =
      Doubted(absl::UnimplementedError("unknown"), ConnectionDoubt::kDamaged);
  const CallId second = fake_->CallsAt(1)[1];
  fake_->End(fake_->CallsAt(1)[0], unknown);
  fake_->SendFrame(second);  // it had begun before: the failures are forgotten
  fake_->End(second, unknown);
  EXPECT_THAT(fake_->reconnects(), ElementsAre(1));
}

// A window that was damaged on the way: the server's every batch got stuck.
TEST_F(PrefetchLoaderTest, ACallThatGetsStuckTwiceInARowNeedsANewConnection) {
  const absl::Status stuck = Doubted(absl::UnavailableError("taken nothing"),
                                     ConnectionDoubt::kSuspect);
  Open(100, {{1, "data-1:7001", true}});
  const auto fail = [&] {
    while (!fake_->calls().empty()) {
      fake_->End(fake_->calls().begin()->first, stuck);
    }
    time_ += absl::Seconds(3);
    fake_->Tick();
  };
  fail();
  EXPECT_THAT(fake_->reconnects(), IsEmpty());
  CompleteAll();
  for (uint64_t step = 0; step < 8; ++step) ExpectNext({0, step});
  fake_->Tick();
  fail();
  EXPECT_THAT(fake_->reconnects(), IsEmpty()) << "there were batches between";
  ::testing::internal::CaptureStderr();
  fail();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("server data-1:7001: taken nothing"),
                    HasSubstr("probably damaged on the way"),
                    HasSubstr("over a new connection")));
  EXPECT_THAT(fake_->reconnects(), ElementsAre(1));
  fail();
  EXPECT_THAT(fake_->reconnects(), SizeIs(1)) << "the first of the new one";
  fail();
  EXPECT_THAT(fake_->reconnects(), SizeIs(2));
  CompleteAll();
  ExpectNext({0, 8});
}

TEST_F(PrefetchLoaderTest, NoErrorOfAServerIsTakenForTheEndOrForAPause) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kOutOfRange, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kCancelled}) {
    SCOPED_TRACE(absl::StatusCodeToString(code));
    Open(8, {{1, "data-1:7001", true}});
    ErrorDetail detail = MakeErrorDetail("read");
    detail.set_shard("part-3");
    fake_->End(fake_->CallsAt(1)[0],
               WithErrorDetail(absl::Status(code, "no sample 7"), detail));
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = loader_->Next().status();
      EXPECT_TRUE(absl::IsInternal(status)) << status;
      EXPECT_THAT(status.message(), HasSubstr("data-1:7001"));
      EXPECT_THAT(status.message(), HasSubstr("no sample 7"));
      EXPECT_EQ(GetErrorDetail(status).shard(), "part-3");
    }
  }
}

TEST_F(PrefetchLoaderTest, SaysOnceThatTheOnlyServerIsSilent) {
  ::testing::internal::CaptureStderr();
  Open(100, {{1, "data-1:7001", true}});
  const auto log_after = [this](absl::Duration silence) {
    time_ += silence;
    fake_->Tick();
    fake_->Tick();
    const std::string log = ::testing::internal::GetCapturedStderr();
    ::testing::internal::CaptureStderr();
    return log;
  };
  EXPECT_EQ(log_after(options_.step_timeout / 2), "");
  const std::string log = log_after(options_.step_timeout);
  EXPECT_THAT(log, HasSubstr("data-1:7001 has sent nothing for"));
  EXPECT_THAT(log, HasSubstr("epoch 0 step 0 is outstanding"));
  EXPECT_THAT(log, HasSubstr("no other server is available"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_EQ(log_after(options_.step_timeout / 4), "") << "said again";
  EXPECT_THAT(fake_->history(), SizeIs(2)) << "asked again while alone";
  CompleteAll();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("serves batches again"));
  ExpectNext({0, 0});
}

TEST_F(PrefetchLoaderTest, LeavesOutAServerThatDoesNotServeThePlan) {
  Open(16, {{1, "a", true}, {2, "b", true}});
  fake_->End(fake_->CallsAt(1)[0],
             absl::FailedPreconditionError("fingerprint differs"));
  const size_t asked = fake_->history().size();
  while (!fake_->CallsAt(1).empty()) {
    fake_->End(fake_->CallsAt(1)[0],
               absl::FailedPreconditionError("fingerprint differs"));
  }
  for (uint64_t step = 0; step < 16; ++step) {
    CompleteAll();
    ExpectNext({0, step});
    fake_->Tick();
  }
  for (size_t i = asked; i < fake_->history().size(); ++i) {
    EXPECT_EQ(fake_->history()[i].first, 2);
  }
}

TEST_F(PrefetchLoaderTest, SaysOnceThatAServerIsLeftOutAndTriesItAgain) {
  ::testing::internal::CaptureStderr();
  Open(1000, {{1, "a", true}, {2, "b", true}});
  uint64_t step = 0;
  const auto go_on = [&] {
    for (const CallId id : fake_->CallsAt(2)) fake_->Complete(id);
    while (!fake_->CallsAt(1).empty()) {
      fake_->End(fake_->CallsAt(1)[0],
                 absl::FailedPreconditionError("revision 3, not 2"));
    }
    for (const CallId id : fake_->CallsAt(2)) fake_->Complete(id);
    for (int i = 0; i < 4; ++i) ExpectNext({0, step++});
    fake_->Tick();
  };
  for (int round = 0; round < 3; ++round) {
    go_on();
    EXPECT_EQ(loader_->stats().servers, 1);
    go_on();
    EXPECT_TRUE(fake_->CallsAt(1).empty()) << "asked again at once";
    time_ += absl::Seconds(31);
    go_on();
    // With one step, to see whether it serves the plan now.
    ASSERT_THAT(fake_->CallsAt(1), SizeIs(1));
    EXPECT_EQ(fake_->calls().at(fake_->CallsAt(1)[0]).steps.step_count, 1);
  }
  // It was replaced.
  CompleteAll();
  fake_->Tick();
  EXPECT_EQ(loader_->stats().servers, 2);
  CompleteAll();
  for (int i = 0; i < 6; ++i) ExpectNext({0, step++});
  const std::string log = ::testing::internal::GetCapturedStderr();
  size_t lines = 0;
  for (size_t at = 0; (at = log.find("is not used", at)) != std::string::npos;
       ++at) {
    ++lines;
  }
  EXPECT_EQ(lines, 1) << log;
  EXPECT_THAT(log, HasSubstr("server a is not used"));
  EXPECT_THAT(log, HasSubstr("revision 3, not 2"));
  EXPECT_THAT(log, HasSubstr("server a serves batches again"));
}

TEST_F(PrefetchLoaderTest, FailsWhenNoServerServesThePlan) {
  Open(4, {{1, "a", true}, {2, "b", true}});
  while (!fake_->calls().empty()) {
    fake_->End(fake_->calls().begin()->first,
               absl::FailedPreconditionError("fingerprint differs"));
  }
  const absl::Status status = loader_->Next().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("fingerprint differs"));
}

TEST_F(PrefetchLoaderTest, AsksAnotherServerTooWhenOneFallsSilent) {
  options_.step_timeout = absl::Seconds(15);
  Open(4, {{1, "a", true}, {2, "b", true}});
  const std::vector<CallId> silent = fake_->CallsAt(1);
  ASSERT_FALSE(silent.empty());
  fake_->SendFrame(silent[0], 10);  // in the middle of a batch
  for (const CallId id : fake_->CallsAt(2)) fake_->Complete(id);
  time_ += absl::Seconds(16);
  fake_->Tick();
  EXPECT_THAT(fake_->CallsAt(2), SizeIs(silent.size()));
  // The silent one wakes up and sends a piece more: both fill the same slot.
  const CallId second = fake_->CallsAt(2)[0];
  fake_->SendFrame(second, 30);
  fake_->SendFrame(silent[0], 20);
  fake_->SendFrame(second);
  for (const CallId id : fake_->CallsAt(2)) fake_->Complete(id);
  for (uint64_t step = 0; step < 4; ++step) ExpectNext({0, step});
  // What comes late is dropped.
  if (fake_->calls().count(silent[0]) > 0) fake_->Complete(silent[0]);
  EXPECT_TRUE(absl::IsOutOfRange(loader_->Next().status()));
}

TEST_F(PrefetchLoaderTest, ASilentServerThatIsTheOnlyOneIsNotDisturbed) {
  options_.step_timeout = absl::Seconds(15);
  Open(4, {{1, "a", true}});
  const size_t asked = fake_->history().size();
  time_ += absl::Seconds(29);
  fake_->Tick();
  EXPECT_EQ(fake_->history().size(), asked);
  EXPECT_THAT(fake_->reconnects(), IsEmpty());
  CompleteAll();
  for (uint64_t step = 0; step < 4; ++step) ExpectNext({0, step});
}

// A request that was damaged on the way, or settings by which none is sent: the
// job waited until its timeout.
TEST_F(PrefetchLoaderTest, TheOnlyServerIsAskedOverANewConnectionWhenSilent) {
  options_.step_timeout = absl::Seconds(15);
  for (const bool old_call_brings_it : {false, true}) {
    SCOPED_TRACE(old_call_brings_it);
    Open(4, {{1, "data-1:7001", true}});
    const std::vector<CallId> old = fake_->CallsAt(1);
    ASSERT_THAT(old, SizeIs(1));
    time_ += absl::Seconds(31);
    ::testing::internal::CaptureStderr();
    fake_->Tick();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("server data-1:7001 has sent nothing for 31"),
                      HasSubstr("over a new connection")));
    EXPECT_THAT(fake_->reconnects(), ElementsAre(1));
    EXPECT_THAT(fake_->CallsAt(1), SizeIs(2 * old.size()));
    for (const CallId id : old) {
      EXPECT_EQ(fake_->calls().count(id), 1) << "it may only be slow";
    }
    // The next one comes after twice the time.
    time_ += absl::Seconds(31);
    fake_->Tick();
    EXPECT_THAT(fake_->reconnects(), SizeIs(1));
    EXPECT_THAT(fake_->CallsAt(1), SizeIs(2 * old.size()));
    if (old_call_brings_it) {
      for (const CallId id : old) fake_->Complete(id);
    } else {
      time_ += absl::Seconds(31);
      fake_->Tick();
      EXPECT_THAT(fake_->reconnects(), SizeIs(2));
      fake_->Complete(fake_->CallsAt(1).back());
    }
    for (uint64_t step = 0; step < 4; ++step) ExpectNext({0, step});
    fake_->Tick();
    EXPECT_TRUE(fake_->calls().empty()) << "calls that owe nothing go on";
  }
}

// The line came only while a requested batch was missing: with all of them here
// and no server to request the next one from, the log was silent.
TEST_F(PrefetchLoaderTest, TheLogSaysThatNoServerAnswers) {
  Open(20, {{1, "data-1:7001", true}});
  CompleteAll();
  fake_->SetServers({{1, "data-1:7001", false}});
  for (uint64_t step = 0; step < options_.window; ++step) ExpectNext({0, step});
  ::testing::internal::CaptureStderr();
  fake_->Tick();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("no server of endpoint test:1 answers ("),
                    HasSubstr("waiting for epoch 0 step 8")));
  ::testing::internal::CaptureStderr();
  fake_->Tick();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "not every tick";
  time_ += absl::Minutes(1);
  ::testing::internal::CaptureStderr();
  fake_->Tick();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("no server of endpoint test:1 answers ("),
                    HasSubstr("waiting for epoch 0 step 8")));
  // With a server again there is nothing to say.
  time_ += absl::Minutes(1);
  ::testing::internal::CaptureStderr();
  fake_->SetServers({{1, "data-1:7001", true}});
  fake_->Tick();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              Not(HasSubstr("no server of endpoint")));
}

TEST_F(PrefetchLoaderTest, NamesTheEndpointWhenAllServersAreGone) {
  Open(4, {{1, "data-1:7001", true}});
  fake_->End(fake_->CallsAt(1)[0], absl::UnavailableError("reset by peer"));
  fake_->SetServers({{1, "data-1:7001", false}});
  fake_->Tick();
  const absl::Status status = loader_->Next().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("test:1"));
  EXPECT_THAT(status.message(), HasSubstr("epoch 0 step 0"));
  EXPECT_THAT(status.message(), HasSubstr("reset by peer"));
  // It comes back: the loader goes on.
  time_ += absl::Seconds(3);
  fake_->SetServers({{1, "data-1:7001", true}});
  CompleteAll();
  for (uint64_t step = 0; step < 4; ++step) ExpectNext({0, step});
}

TEST_F(PrefetchLoaderTest, UsesAServerThatIsAdded) {
  Open(100, {{1, "a", true}});
  fake_->SetServers({{1, "a", true}, {2, "b", true}});
  for (uint64_t step = 0; step < 20; ++step) {
    CompleteAll();
    ExpectNext({0, step});
    fake_->Tick();
  }
  EXPECT_EQ(fake_->history().back().second.step_count, 2);
  bool used = false;
  for (const auto& [server, steps] : fake_->history()) used |= server == 2;
  EXPECT_TRUE(used);
}

TEST_F(PrefetchLoaderTest, DropsAStepThatIsSentTwice) {
  Open(2, {{1, "a", true}});
  const CallId call = fake_->CallsAt(1)[0];
  fake_->SendFrame(call);
  ExpectNext({0, 0});
  fake_->SendBatch(call, MakeBatch(plan_, {0, 0}));
  CompleteAll();
  ExpectNext({0, 1});
  EXPECT_TRUE(absl::IsOutOfRange(loader_->Next().status()));
}

// --- frames that no correct server sends -----------------------------------

TEST_F(PrefetchLoaderTest, RefusesAStepThatWasNotAskedFor) {
  Open(20, {{1, "a", true}});
  const absl::Status status = AfterTwice(0, [this](CallId call) {
    fake_->SendBatch(call, MakeBatch(plan_, {0, 7}));
  });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("epoch 0 step 7"));
}

TEST_F(PrefetchLoaderTest, RefusesAFrameWithoutItsHeader) {
  Open(4, {{1, "a", true}});
  const absl::Status status = AfterTwice(0, [this](CallId call) {
    wire::FrameView frame;
    frame.data_bytes = 3;
    frame.data = {"abc"};
    fake_->SendRaw(call, frame);
  });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST_F(PrefetchLoaderTest, RefusesFramesThatLeaveAGapOrRunOver) {
  for (const uint64_t offset : {uint64_t{9}, uint64_t{11}, ~uint64_t{0}}) {
    SCOPED_TRACE(offset);
    Open(4, {{1, "a", true}});
    const absl::Status status = AfterTwice(0, [&](CallId call) {
      fake_->SendFrame(call, 10);
      wire::FrameView frame;
      frame.offset = offset;
      frame.data_bytes = 3;
      frame.data = {"abc"};
      fake_->SendRaw(call, frame);
    });
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    loader_.reset();
  }
  Open(4, {{1, "a", true}});
  const absl::Status status = AfterTwice(0, [this](CallId call) {
    FakeBatch batch = MakeBatch(plan_, {0, 0});
    batch.payload += "more";
    fake_->SendBatch(call, batch);
  });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST_F(PrefetchLoaderTest, RefusesAFrameThatBringsNothing) {
  Open(4, {{1, "a", true}});
  const absl::Status status = AfterTwice(0, [this](CallId call) {
    fake_->SendFrame(call, 10);
    wire::FrameView frame;
    frame.offset = 10;
    fake_->SendRaw(call, frame);
  });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("a frame is empty"));
}

TEST_F(PrefetchLoaderTest, AServerThatSendsTheSameAgainIsAsSilentAsAnother) {
  Open(8, {{1, "a", true}, {2, "b", true}});
  const CallId broken = fake_->CallsAt(1)[0];
  ASSERT_EQ(fake_->calls().at(broken).steps.first_step, 0);
  ASSERT_EQ(fake_->calls().at(broken).steps.step_count, 2);
  for (const CallId id : fake_->CallsAt(2)) fake_->Complete(id);
  for (int i = 0; i < 12; ++i) {
    fake_->SendBatch(broken, MakeBatch(plan_, {0, 0}));
    fake_->Tick();
    for (const CallId id : fake_->CallsAt(2)) fake_->Complete(id);
    time_ += options_.step_timeout / 4;
  }
  for (uint64_t step = 0; step < 8; ++step) ExpectNext({0, step});
}

TEST_F(PrefetchLoaderTest, RefusesABatchLargerThanItsSlot) {
  Open(4, {{1, "a", true}});
  FakeBatch batch = MakeBatch(plan_, {0, 0});
  batch.header.set_payload_bytes(plan_.max_payload_bytes() + 1);
  batch.payload.resize(plan_.max_payload_bytes() + 1);
  const absl::Status status =
      AfterTwice(0, [&](CallId call) { fake_->SendBatch(call, batch); });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST_F(PrefetchLoaderTest, ComparesTheDigestOfAPayload) {
  Open(4, {{1, "a", true}});
  fake_->SendFrame(fake_->CallsAt(1)[0]);
  ExpectNext({0, 0});
  FakeBatch batch = MakeBatch(plan_, {0, 1});
  batch.payload[3] ^= 1;
  const absl::Status status =
      AfterTwice(1, [&](CallId call) { fake_->SendBatch(call, batch); });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("digest"));
}

TEST_F(PrefetchLoaderTest, SaysThatThereIsNoMemoryForASlot) {
  class NoMemory : public SlotAllocator {
   public:
    uint8_t* Allocate(uint64_t) override { return nullptr; }
    void Free(uint8_t*, uint64_t) override { FAIL(); }
  };
  options_.allocator = std::make_shared<NoMemory>();
  Open(4, {{1, "a", true}});
  fake_->SendFrame(fake_->CallsAt(1)[0]);
  const absl::Status status = loader_->Next().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("no memory"));
}

TEST_F(PrefetchLoaderTest, CloseMakesNextReturnCancelled) {
  Open(4, {{1, "a", true}});
  loader_->Close();
  EXPECT_TRUE(fake_->stopped());
  loader_->Close();
  EXPECT_TRUE(absl::IsCancelled(loader_->Next().status()));
}

TEST_F(PrefetchLoaderTest, CountsWhereTimeWentByServer) {
  Open(8, {{1, "a", true}, {2, "b", true}});
  const CallId slow = fake_->CallsAt(1)[0];
  FakeBatch batch = MakeBatch(plan_, {0, fake_->calls().at(slow).left.back()});
  batch.header.mutable_stage_micros()->set_decode(2000);
  fake_->SendBatch(slow, batch);
  HostLoader::Stats stats = loader_->stats();
  ASSERT_THAT(stats.by_server, SizeIs(1));
  EXPECT_EQ(stats.by_server[0].address, "a");
  EXPECT_EQ(stats.by_server[0].batches, 1);
  EXPECT_EQ(stats.by_server[0].timed_batches, 1);
  EXPECT_DOUBLE_EQ(stats.by_server[0].decode_seconds, 0.002);
  EXPECT_GT(stats.copy_seconds, 0);

  // In two frames: on its way between them. Others arrive meanwhile.
  const double receive = stats.by_server[0].receive_seconds;
  ASSERT_TRUE(fake_->SendFrame(slow, 7));
  time_ += absl::Seconds(2);
  for (const CallId id : fake_->CallsAt(2)) fake_->Complete(id);
  ASSERT_TRUE(fake_->SendFrame(slow, 1 << 20));
  stats = loader_->stats();
  ASSERT_THAT(stats.by_server, SizeIs(2));
  EXPECT_GE(stats.by_server[0].receive_seconds, receive + 2);
  EXPECT_EQ(stats.by_server[1].address, "b");
  EXPECT_EQ(stats.by_server[1].batches, 4);
  EXPECT_EQ(stats.by_server[1].timed_batches, 0);
  EXPECT_LT(stats.by_server[1].receive_seconds, 2);
}

// What was waited for was the connection, not the server that came back.
TEST_F(PrefetchLoaderTest, CountsTheWaitForServersThatDoNotAnswerApart) {
  Open(4, {{1, "a", false}});
  fake_->Tick();
  EXPECT_TRUE(absl::IsUnavailable(loader_->Next().status()));
  const HostLoader::Stats away = loader_->stats();
  EXPECT_GE(away.wait_seconds, 0.05);
  EXPECT_EQ(away.no_answer_seconds, away.wait_seconds);
  EXPECT_EQ(away.no_answer, "a: not connected");
  fake_->SetServers({{1, "a", true}});
  fake_->Tick();
  EXPECT_TRUE(absl::IsDeadlineExceeded(loader_->Next().status()));
  CompleteAll();
  ExpectNext({0, 0});
  const HostLoader::Stats back = loader_->stats();
  EXPECT_GE(back.wait_seconds, away.wait_seconds + 0.05);
  EXPECT_EQ(back.no_answer_seconds, away.no_answer_seconds);
}

TEST_F(PrefetchLoaderTest, AConnectedServerThatSendsNothingDoesNotAnswer) {
  Open(4, {{1, "a", true}});
  time_ += options_.step_timeout;
  fake_->Tick();
  EXPECT_TRUE(absl::IsDeadlineExceeded(loader_->Next().status()));
  EXPECT_GE(loader_->stats().no_answer_seconds, 0.05);
  // A frame ends it.
  ASSERT_TRUE(fake_->SendFrame(CallAt(1), 7));
  fake_->Tick();
  const double until_then = loader_->stats().no_answer_seconds;
  EXPECT_TRUE(absl::IsDeadlineExceeded(loader_->Next().status()));
  EXPECT_EQ(loader_->stats().no_answer_seconds, until_then);
}

// It was lost, and `millrace bench` showed a negative wait.
TEST_F(PrefetchLoaderTest, AWaitThatIsClosedCounts) {
  plan_ = MakePlan(4);
  options_.next_timeout = absl::Minutes(1);
  auto transport = std::make_unique<FakeTransport>(plan_);
  fake_ = transport.get();
  fake_->SetServers({{1, "a", true}});
  double seen = -1;
  auto loader = NewPrefetchLoader(
      options_, plan_, std::move(transport), time_, [this] { return time_; },
      [&](absl::Duration) {
        if (seen >= 0) {
          loader_->Close();
        } else {
          time_ += absl::Seconds(5);
          fake_->SetServers({{1, "a", false}});
          fake_->Tick();
          seen = 0;
        }
      });
  ASSERT_TRUE(loader.ok()) << loader.status();
  loader_ = *std::move(loader);
  EXPECT_TRUE(absl::IsCancelled(loader_->Next().status()));
  EXPECT_DOUBLE_EQ(loader_->stats().wait_seconds, 5);
  EXPECT_DOUBLE_EQ(loader_->stats().no_answer_seconds, 5);
}

}  // namespace
}  // namespace millrace::prefetch
