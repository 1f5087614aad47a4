// The queue between the transport's thread and the consumer, by hand and by
// threads of its own; seek_test and hedge_test have it inside a loader.

#include "client/prefetch/ready_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"

namespace millrace::prefetch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kSlots = 4;

// Epochs of 10 steps, from `start` to the end of epoch 1.
Sequence From(Position start) { return *Sequence::Seek(start, {0, 0}, 2, 10); }

// Epochs of 10 steps without end.
Sequence Endless() { return *Sequence::Create({0, 0}, 0, 10); }

// A batch whose payload is one byte.
WholeBatch MakeBatch(SlotPool& pool, uint8_t byte) {
  WholeBatch batch;
  batch.slot = *pool.Take();
  batch.slot[0] = byte;
  batch.header.set_payload_bytes(1);
  batch.header.set_local_valid(3);
  return batch;
}

// Time passes by waiting only: as long as Next() would wait, at most.
class ReadyQueueTest : public ::testing::Test {
 protected:
  ReadyQueueTest() { queue_.SetUsable(1); }

  void Deliver(uint64_t number, absl::Time late_at = absl::InfiniteFuture()) {
    Deliver(number, late_at, number + 1);
  }
  void Deliver(uint64_t number, absl::Time late_at, uint64_t whole_below) {
    queue_.Deliver(number, MakeBatch(*pool_, static_cast<uint8_t>(number)),
                   {.server = "a",
                    .begun_at = time_,
                    .whole_below = whole_below,
                    .late_at = late_at});
  }

  // Position and byte of the next batch.
  void ExpectNext(Position position, uint8_t byte) {
    const absl::StatusOr<HostBatch> batch = queue_.Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->position, position);
    EXPECT_THAT(batch->payload, ElementsAre(byte));
  }

  absl::Time time_ = absl::UnixEpoch() + absl::Hours(1);
  int wakes_ = 0;
  std::function<void()> while_waiting_ = [] {};
  std::vector<absl::Duration> waits_;
  const std::shared_ptr<SlotPool> pool_ =
      std::make_shared<SlotPool>(NewPlainSlotAllocator(), kSlots, 64);
  ReadyQueue queue_{{.endpoint = "test:1",
                     .slots = kSlots,
                     .next_timeout = absl::Seconds(1),
                     .opened_at = time_},
                    From({0, 0}),
                    pool_,
                    [this] { return time_; },
                    [this](absl::Duration longest) {
                      time_ += longest;
                      waits_.push_back(longest);
                      while_waiting_();
                    },
                    [this] { ++wakes_; }};
};

TEST_F(ReadyQueueTest, HandsOutInOrderWhatComesInAnyOrder) {
  Deliver(2);
  Deliver(0);
  Deliver(1);
  ExpectNext({0, 0}, 0);
  EXPECT_EQ(queue_.next(), 1);
  ExpectNext({0, 1}, 1);
  ExpectNext({0, 2}, 2);
  EXPECT_EQ(queue_.position(), (Position{0, 3}));
  EXPECT_EQ(queue_.stats().batches, 3);
  EXPECT_EQ(queue_.stats().samples, 9);
  EXPECT_EQ(queue_.stats().payload_bytes, 3);
}

TEST_F(ReadyQueueTest, SharedMemoryLivesAsLongAsItsLease) {
  auto memory = std::make_shared<uint8_t>(42);
  const std::weak_ptr<uint8_t> watch = memory;
  WholeBatch batch;
  batch.header.set_payload_bytes(1);
  batch.shared = std::move(memory);
  queue_.Deliver(0, std::move(batch), {.server = "a", .shared = true});
  absl::StatusOr<HostBatch> next = queue_.Next();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(next->payload, ElementsAre(42));
  EXPECT_EQ(pool_->held(), 1);
  next->lease.reset();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(pool_->held(), 0);
}

TEST_F(ReadyQueueTest, DropsBatchesOfAnOldGeneration) {
  Deliver(0);
  Deliver(1);
  ASSERT_TRUE(queue_.Seek(From({0, 5})).ok());
  EXPECT_TRUE(queue_.seek_pending());
  EXPECT_EQ(queue_.position(), (Position{0, 5}));
  // The transport's thread does not know yet.
  Deliver(2);
  Deliver(0);
  EXPECT_TRUE(absl::IsDeadlineExceeded(queue_.Next().status()));
  EXPECT_EQ(queue_.TakeSeek().At(0), (Position{0, 5}));
  EXPECT_FALSE(queue_.seek_pending());
  // No slot was lost: there are not more than these.
  for (uint64_t number = 0; number < kSlots; ++number) Deliver(number);
  const absl::StatusOr<HostBatch> batch = queue_.Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->position, (Position{0, 5}));
  EXPECT_EQ(batch->generation, 1);
}

TEST_F(ReadyQueueTest, AnErrorComesInPlaceOfItsBatch) {
  Deliver(3);
  queue_.FailAt(2, absl::InternalError("at 2"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(queue_.Next().status()))
      << "batch 0 may still come";
  Deliver(0);
  Deliver(1);
  ExpectNext({0, 0}, 0);
  ExpectNext({0, 1}, 1);
  EXPECT_EQ(queue_.Next().status().message(), "at 2");
}

TEST_F(ReadyQueueTest, OfSeveralErrorsTheOneOfTheLowestBatchCounts) {
  queue_.FailAt(2, absl::InternalError("at 2"));
  queue_.FailAt(1, absl::InternalError("at 1"));
  queue_.FailAt(3, absl::InternalError("at 3"));
  Deliver(0);
  ExpectNext({0, 0}, 0);
  EXPECT_EQ(queue_.Next().status().message(), "at 1");
}

TEST_F(ReadyQueueTest, AnErrorComesBehindWhatIsWholeAndEndsWithASeek) {
  Deliver(0);
  queue_.FailAt(1, absl::InternalError("first"));
  queue_.FailAt(1, absl::InternalError("second"));
  ExpectNext({0, 0}, 0);
  EXPECT_EQ(queue_.Next().status().message(), "first");
  EXPECT_EQ(queue_.Next().status().message(), "first");
  ASSERT_TRUE(queue_.Seek(From({0, 1})).ok());
  // An error of the old place comes too late.
  queue_.FailAt(0, absl::InternalError("third"));
  queue_.TakeSeek();
  Deliver(0);
  ExpectNext({0, 1}, 0);
}

TEST_F(ReadyQueueTest, AfterTheLastBatchItIsOutOfRange) {
  ASSERT_TRUE(queue_.Seek(From({1, 9})).ok());
  queue_.TakeSeek();
  Deliver(0);
  ExpectNext({1, 9}, 0);
  const absl::Status status = queue_.Next().status();
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_EQ(status.message(),
            "all batches up to epoch 2 step 0 were delivered");
}

TEST_F(ReadyQueueTest, ATimeoutSaysWhatWasWaitedFor) {
  queue_.DescribeServers("a: connected", false);
  absl::Status status = queue_.Next().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_EQ(status.message(),
            "no batch within 1s: waiting for epoch 0 step 0 from endpoint "
            "test:1 (a: connected); the connected servers did not send this "
            "batch: see `millrace status --endpoint=test:1` and the logs of "
            "the servers");
  // A server that was stopped (SIGSTOP) had neither cause nor action.
  queue_.DescribeServers("a: connected", true);
  status = queue_.Next().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(status.message(),
              HasSubstr("(a: connected); the connected servers have sent "
                        "nothing for 1s or longer: check that they are not "
                        "stopped, their logs, and `millrace status"));
  queue_.SetUsable(0);
  status = queue_.Next().status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr("check that the servers run"));

  std::vector<HostBatch> held;
  for (uint64_t number = 0; number < kSlots; ++number) {
    Deliver(number);
    held.push_back(*queue_.Next());
  }
  status = queue_.Next().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(status.message(), HasSubstr("all 4 slots are held"));
}

TEST_F(ReadyQueueTest, NextWithinReturnsAtItsTimeWithoutABatch) {
  EXPECT_EQ(*queue_.NextWithin(absl::ZeroDuration()), std::nullopt);
  EXPECT_TRUE(waits_.empty()) << "without patience it does not wait";
  EXPECT_EQ(*queue_.NextWithin(absl::Milliseconds(30)), std::nullopt);
  EXPECT_THAT(waits_, ElementsAre(absl::Milliseconds(30)));
  Deliver(0);
  auto batch = queue_.NextWithin(absl::ZeroDuration());
  ASSERT_TRUE(batch.ok() && batch->has_value());
  EXPECT_THAT((*batch)->payload, ElementsAre(0));
}

TEST_F(ReadyQueueTest, CallsThatWaitForOneBatchShareTheTimeoutOfNext) {
  queue_.DescribeServers("a: connected", false);
  for (int call = 0; call < 4; ++call) {
    const auto batch = queue_.NextWithin(absl::Milliseconds(240));
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(*batch, std::nullopt);
    // Work of the consumer between two calls is no wait.
    time_ += absl::Seconds(3);
  }
  EXPECT_DOUBLE_EQ(queue_.stats().wait_seconds, 0.96);
  const absl::Status status =
      queue_.NextWithin(absl::Milliseconds(240)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("no batch within 1s"));
  EXPECT_DOUBLE_EQ(queue_.stats().wait_seconds, 1);
  // The next wait begins anew, and its parts count for the server together.
  EXPECT_EQ(*queue_.NextWithin(absl::Milliseconds(500)), std::nullopt);
  while_waiting_ = [this] { Deliver(0); };
  ASSERT_TRUE(queue_.NextWithin(absl::Milliseconds(100)).ok());
  EXPECT_DOUBLE_EQ(queue_.stats().wait_seconds, 1.6);
  EXPECT_DOUBLE_EQ(queue_.stats().by_server[0].waited_seconds, 0.6);
}

TEST_F(ReadyQueueTest, CloseEndsAWaitAndWhatComesAfter) {
  while_waiting_ = [this] { queue_.Close(); };
  EXPECT_TRUE(absl::IsCancelled(queue_.Next().status()));
  EXPECT_EQ(waits_.size(), 1);
  Deliver(0);
  EXPECT_TRUE(absl::IsCancelled(queue_.Next().status()));
  EXPECT_TRUE(absl::IsCancelled(queue_.Seek(From({0, 5}))));
}

TEST_F(ReadyQueueTest, WakesTheTransportOnceWhenTheAwaitedStepBecomesLate) {
  Deliver(1, time_ + absl::Milliseconds(30), 0);
  EXPECT_FALSE(queue_.Next().ok());
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(waits_.front(), absl::Milliseconds(30));
}

TEST_F(ReadyQueueTest, CountsWaitingAtTheServerThatBringsTheBatch) {
  while_waiting_ = [this] {
    // The first 200 ms nobody answers, and then somebody does.
    EXPECT_DOUBLE_EQ(queue_.stats().wait_seconds, waits_.size() == 2 ? 0.2 : 0);
    queue_.DescribeServers("a: silent", waits_.size() == 1);
    if (waits_.size() == 2) Deliver(0);
  };
  ExpectNext({0, 0}, 0);
  const HostLoader::Stats stats = queue_.stats();
  EXPECT_DOUBLE_EQ(stats.wait_seconds, 0.4);
  EXPECT_DOUBLE_EQ(stats.no_answer_seconds, 0.2);
  EXPECT_EQ(stats.no_answer, "a: silent");
  ASSERT_EQ(stats.by_server.size(), 1);
  EXPECT_DOUBLE_EQ(stats.by_server[0].waited_seconds, 0.2);
  EXPECT_DOUBLE_EQ(stats.first_batch_seconds, 0.4);
}

TEST_F(ReadyQueueTest, TellsWhatTheConsumerHasDone) {
  Deliver(0);
  Deliver(1);
  Deliver(2);
  queue_.Look([](const Consumption&) { return true; });
  ExpectNext({0, 0}, 0);
  time_ += absl::Milliseconds(50);
  ExpectNext({0, 1}, 1);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(queue_.consumer_step()), 10, 0.001)
      << "0.2 of it";
  const auto look = [this](uint64_t in_hand, bool anew) {
    queue_.Look([&](const Consumption& seen) {
      EXPECT_EQ(seen.batches, 2);
      EXPECT_EQ(seen.generation, 0);
      EXPECT_EQ(seen.last_return, time_);
      EXPECT_EQ(seen.min_in_hand, in_hand);
      EXPECT_EQ(seen.by_server->size(), 1);
      return anew;
    });
  };
  look(2, false);
  look(2, true);
  look(kSlots, false);
}

// The transport's thread delivers, the consumer takes and seeks, and others
// look on. ThreadSanitizer watches.
TEST(ReadyQueueThreadsTest, EveryGenerationIsInOrder) {
  const auto pool =
      std::make_shared<SlotPool>(NewPlainSlotAllocator(), kSlots + 1, 64);
  ReadyQueue queue({.endpoint = "test:1",
                    .slots = kSlots,
                    .next_timeout = absl::Minutes(1),
                    .opened_at = absl::Now()},
                   Endless(), pool, absl::Now, nullptr, [] {});
  queue.SetUsable(1);
  std::atomic<bool> done{false};
  std::thread transport([&] {
    uint64_t number = 0;
    while (!done.load()) {
      if (queue.seek_pending()) {
        queue.TakeSeek();
        number = 0;
      }
      const uint64_t next = queue.next();
      if (number < next || number - next + pool->held() >= kSlots) {
        std::this_thread::yield();
        continue;
      }
      queue.Deliver(number, MakeBatch(*pool, static_cast<uint8_t>(number)),
                    {.server = "a", .whole_below = number + 1});
      ++number;
    }
  });
  std::thread onlooker([&] {
    while (!done.load()) {
      queue.DescribeServers("a: connected", false);
      EXPECT_LE(queue.stats().by_server.size(), 1);
      std::this_thread::yield();
    }
  });
  const auto consume = [&] {
    uint64_t place = 0;
    for (uint64_t i = 0; i < 1000; ++i, ++place) {
      if (i % 50 == 49) {
        ASSERT_TRUE(queue.Seek(Endless()).ok());
        place = 0;
      }
      const absl::StatusOr<HostBatch> batch = queue.Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      ASSERT_EQ(batch->position, (Position{place / 10, place % 10}));
      ASSERT_EQ(batch->payload[0], static_cast<uint8_t>(place));
      ASSERT_EQ(batch->generation, (i + 1) / 50);
    }
  };
  consume();
  done.store(true);
  transport.join();
  onlooker.join();
}

}  // namespace
}  // namespace millrace::prefetch
