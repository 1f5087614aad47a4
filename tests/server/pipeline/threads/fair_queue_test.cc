// Whose work comes next, on simulated threads whose rows take the time that a
// test says: no clock, no thread.

#include "server/pipeline/threads/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace millrace::pipeline {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMilli = 1'000'000;
constexpr int64_t kMicro = 1000;

std::shared_ptr<const Sharer> Of(std::string plan, std::string client,
                                 std::string peer, double weight = 1) {
  auto sharer = std::make_shared<Sharer>();
  sharer->plan = std::move(plan);
  sharer->client = std::move(client);
  sharer->peer = std::move(peer);
  sharer->weight = weight;
  return sharer;
}

// Of a loader's call for the batches from `first` on.
std::shared_ptr<const Sharer> OfLoader(Sharer::Position first) {
  auto sharer = std::make_shared<Sharer>();
  sharer->client = "loader";
  sharer->first = first;
  return sharer;
}

// A call with work: without end, or `rows` of it.
class Call : public FairQueue::Lane, public std::enable_shared_from_this<Call> {
 public:
  Call(std::shared_ptr<const Sharer> sharer, int64_t row_nanos,
       uint64_t rows = UINT64_MAX, uint64_t order = 0)
      : FairQueue::Lane(std::move(sharer), order),
        row_nanos(row_nanos),
        rows(rows) {}
  int64_t row_nanos;
  uint64_t rows;
  int64_t given = 0;
  int threads = 0;
};

class Threads {
 public:
  Threads(FairQueue& queue, uint32_t threads, uint64_t most_rows = 4096)
      : queue_(queue), threads_(threads), most_rows_(most_rows) {}

  std::shared_ptr<Call> Add(std::shared_ptr<const Sharer> sharer,
                            int64_t row_nanos, uint64_t rows = UINT64_MAX,
                            uint64_t order = 0) {
    auto call =
        std::make_shared<Call>(std::move(sharer), row_nanos, rows, order);
    queue_.Push(call, now_);
    return call;
  }

  void Run(int64_t nanos) {
    const int64_t end = now_ + nanos;
    while (true) {
      for (Thread& thread : threads_) {
        if (thread.call == nullptr) Take(thread);
      }
      Thread* first = nullptr;
      for (Thread& thread : threads_) {
        if (thread.call == nullptr) continue;
        if (first == nullptr || thread.until < first->until) first = &thread;
      }
      if (first == nullptr || first->until > end) break;
      now_ = first->until;
      const int64_t took = first->until - first->since;
      queue_.End(first->turn, took, now_);
      first->call->given += took;
      --first->call->threads;
      first->call = nullptr;
    }
    now_ = end;
  }

  int64_t now() const { return now_; }

 private:
  struct Thread {
    std::shared_ptr<Call> call;  // a call may be over before its last row is
    FairQueue::Turn turn;
    int64_t since = 0, until = 0;
  };

  void Take(Thread& thread) {
    auto* const next =
        static_cast<Call*>(queue_.Next(static_cast<uint32_t>(threads_.size())));
    if (next == nullptr) return;
    // The queue may let go of it below.
    const std::shared_ptr<Call> call = next->shared_from_this();
    const uint64_t rows =
        std::min({queue_.RowsPerTask(*call), call->rows, most_rows_});
    if (call->rows != UINT64_MAX) call->rows -= rows;
    thread.turn = queue_.Begin(call.get(), rows, call->rows > 0);
    thread.call = call;
    ++call->threads;
    thread.since = now_;
    thread.until = now_ + static_cast<int64_t>(rows) * call->row_nanos;
  }

  FairQueue& queue_;
  std::vector<Thread> threads_;
  const uint64_t most_rows_;
  int64_t now_ = 1;
};

const FairQueue::Options kTimed = {.task_nanos = kMilli};

double Ratio(const std::shared_ptr<Call>& a, const std::shared_ptr<Call>& b) {
  return static_cast<double>(a->given) / static_cast<double>(b->given);
}

TEST(FairQueue, PlansShareTimeWhateverTheirRowsCost) {
  for (const uint32_t count : {1u, 2u, 7u}) {
    FairQueue queue(kTimed);
    Threads threads(queue, count);
    const auto heavy = threads.Add(Of("heavy", "a", "h1"), 400 * kMilli);
    const auto light = threads.Add(Of("light", "b", "h2"), kMicro);
    threads.Run(60 * kSecond);
    EXPECT_NEAR(Ratio(light, heavy), 1, 0.1) << count << " threads";
  }
}

TEST(FairQueue, WeightsAreOfTime) {
  FairQueue queue(kTimed);
  Threads threads(queue, 2);
  const auto three = threads.Add(Of("a", "a", "h1", 3), 5 * kMilli);
  const auto one = threads.Add(Of("b", "b", "h2", 1), 30 * kMicro);
  threads.Run(30 * kSecond);
  EXPECT_NEAR(Ratio(three, one), 3, 0.1);
}

// The same where both jobs run on one machine.
TEST(FairQueue, WeightsHoldWithinAPeer) {
  FairQueue queue(kTimed);
  Threads threads(queue, 2);
  const auto three = threads.Add(Of("a", "a", "h", 3), 5 * kMilli);
  const auto one = threads.Add(Of("b", "b", "h", 1), 30 * kMicro);
  threads.Run(30 * kSecond);
  EXPECT_NEAR(Ratio(three, one), 3, 0.1);
}

TEST(FairQueue, MoreCallsBuyNoTime) {
  FairQueue queue(kTimed);
  Threads threads(queue, 2);
  const auto many = Of("plan", "many", "h1");
  const auto few = Of("plan", "few", "h2");
  std::vector<std::shared_ptr<Call>> calls;
  for (int i = 0; i < 36; ++i) {
    calls.push_back(threads.Add(i < 32 ? many : few, 700 * kMicro));
  }
  threads.Run(30 * kSecond);
  int64_t of_many = 0, of_few = 0;
  for (int i = 0; i < 36; ++i) (i < 32 ? of_many : of_few) += calls[i]->given;
  EXPECT_NEAR(static_cast<double>(of_many) / of_few, 1, 0.02);
  // Within a client they take turns.
  for (int i = 0; i < 32; ++i) {
    EXPECT_NEAR(Ratio(calls[i], calls[0]), 1, 0.1);
  }
}

TEST(FairQueue, WhoWasIdleHasSavedUpNothing) {
  FairQueue queue(kTimed);
  Threads threads(queue, 1);
  const auto sharer = Of("a", "a", "h1");
  const auto once = threads.Add(sharer, kMilli, 10);
  const auto other = threads.Add(Of("b", "b", "h2"), kMilli);
  threads.Run(20 * kSecond);
  EXPECT_EQ(once->given, 10 * kMilli);
  const int64_t before = other->given;
  const auto again = threads.Add(sharer, kMilli);
  threads.Run(kSecond);
  EXPECT_NEAR(static_cast<double>(again->given) /
                  static_cast<double>(other->given - before),
              1, 0.05);
}

TEST(FairQueue, WhoComesIsNext) {
  FairQueue queue(kTimed);
  Threads threads(queue, 2);
  const auto heavy = threads.Add(Of("heavy", "a", "h"), 25 * kMilli);
  threads.Run(10 * kSecond);
  ASSERT_EQ(heavy->threads, 2);
  const auto light = threads.Add(Of("light", "b", "h"), kMilli);
  EXPECT_EQ(queue.Next(2), light.get());
  EXPECT_TRUE(queue.NextIsAlone());
  // As soon as a row of the other ends.
  threads.Run(27 * kMilli);
  EXPECT_GT(light->given, 0);
  EXPECT_FALSE(queue.NextIsAlone());
}

// Another seed is another plan.
TEST(FairQueue, ManyPlansOfAPeerWeighAsOne) {
  FairQueue queue(kTimed);
  Threads threads(queue, 2);
  std::vector<std::shared_ptr<Call>> calls;
  for (int i = 0; i < 70; ++i) {
    calls.push_back(
        threads.Add(Of("seed" + std::to_string(i), "a", "h1"), 25 * kMilli));
  }
  const auto honest = threads.Add(Of("honest", "b", "h2"), kMilli);
  threads.Run(100 * kSecond);
  EXPECT_GE(honest->given, static_cast<int64_t>(0.45 * 2 * 100 * kSecond));
}

TEST(FairQueue, ManyClientIdsOfAPeerWeighAsFew) {
  FairQueue queue(kTimed);
  Threads threads(queue, 2);
  std::vector<std::shared_ptr<Call>> calls;
  for (int i = 0; i < 500; ++i) {
    calls.push_back(
        threads.Add(Of("plan", "id" + std::to_string(i), "h1"), kMilli));
  }
  const auto honest = threads.Add(Of("plan", "b", "h2"), kMilli);
  threads.Run(100 * kSecond);
  const double share = static_cast<double>(honest->given) / (200 * kSecond);
  EXPECT_NEAR(share, 1.0 / (1 + FairQueue::kMaxClientsOfPeer), 0.01);
}

// Ranks of one job on hosts with eight and with four of them go equally fast.
TEST(FairQueue, RanksOfAJobShareEqually) {
  FairQueue queue(kTimed);
  Threads threads(queue, 2);
  std::vector<std::shared_ptr<Call>> calls;
  for (int i = 0; i < 12; ++i) {
    calls.push_back(threads.Add(
        Of("plan", "rank" + std::to_string(i), i < 8 ? "h1" : "h2"), kMilli));
  }
  threads.Run(60 * kSecond);
  for (const auto& call : calls) EXPECT_NEAR(Ratio(call, calls[0]), 1, 0.05);
}

// A plan for each row: none of them has a past of its own.
TEST(FairQueue, APeerWithEverNewPlansHoldsUpNobody) {
  FairQueue queue(kTimed);
  Threads threads(queue, 1);
  const auto honest = threads.Add(Of("honest", "b", "h2"), kMilli);
  std::vector<std::shared_ptr<Call>> calls;
  for (int i = 0; i < 800; ++i) {
    calls.push_back(
        threads.Add(Of("seed" + std::to_string(i), "a", "h1"), 25 * kMilli, 1));
    if (i % 2 == 1) calls.erase(calls.begin());
    threads.Run(25 * kMilli);
  }
  EXPECT_GE(honest->given, static_cast<int64_t>(0.45 * 20 * kSecond));
}

// A plan that several hosts run stands for itself.
TEST(FairQueue, APlanOfManyHostsIsOnePlan) {
  FairQueue queue(kTimed);
  Threads threads(queue, 2);
  std::vector<std::shared_ptr<Call>> ranks;
  for (int i = 0; i < 8; ++i) {
    ranks.push_back(threads.Add(
        Of("large", "r" + std::to_string(i), "h" + std::to_string(i)), kMilli));
  }
  const auto small = threads.Add(Of("small", "s", "h0"), kMilli);
  threads.Run(60 * kSecond);
  int64_t of_large = 0;
  for (const auto& rank : ranks) of_large += rank->given;
  EXPECT_NEAR(static_cast<double>(of_large) / small->given, 1, 0.05);
}

TEST(FairQueue, TasksFollowTheMeasuredTimeOfARow) {
  FairQueue queue(kTimed);
  const auto call = std::make_shared<Call>(Of("a", "a", "h"), kMicro);
  queue.Push(call, 0);
  EXPECT_EQ(queue.RowsPerTask(*call), 1u) << "nothing is known yet";
  const auto run = [&](uint64_t rows, int64_t row_nanos) {
    const FairQueue::Turn turn = queue.Begin(call.get(), rows, true);
    queue.End(turn, static_cast<int64_t>(rows) * row_nanos, 0);
    return queue.RowsPerTask(*call);
  };
  EXPECT_EQ(run(1, kMicro), 1000u);
  EXPECT_EQ(run(1000, 50 * kMilli), 1u) << "at once, not by and by";
  uint64_t rows = 1;
  for (int i = 0; i < 60; ++i) rows = run(rows, kMicro);
  EXPECT_GE(rows, 900u);
}

// Threads that wait: a slow storage does not have all of them, as soon as there
// is anybody else.
TEST(FairQueue, RoomIsLeftForOthers) {
  FairQueue queue({.leaves_room = true});
  Threads threads(queue, 32, /*most_rows=*/1);
  const auto slow = threads.Add(Of("slow", "a", "h"), 100 * kMilli);
  threads.Run(kSecond);
  EXPECT_EQ(slow->threads, 32) << "alone it has all";
  const auto sharer = Of("fast", "b", "h");
  const auto once = threads.Add(sharer, 10 * kMicro, 1);
  threads.Run(kSecond);
  EXPECT_EQ(once->rows, 0u);
  EXPECT_EQ(slow->threads, 16);
  // The other one has nothing to read for a moment: threads wait for it.
  const auto fast = threads.Add(sharer, 10 * kMicro, 50'000);
  threads.Run(100 * kMilli);
  EXPECT_EQ(fast->rows, 0u);
}

TEST(FairQueue, TellsWhoWasGivenWhat) {
  FairQueue queue(kTimed);
  Threads threads(queue, 1);
  const auto a = Of("a", "client a", "h1", 3);
  const auto b = Of("b", "client b", "h2");
  auto of_a = threads.Add(a, kMilli);
  auto of_b = threads.Add(b, kMilli);
  threads.Run(20 * kSecond);
  const auto shares = queue.Shares(10, threads.now());
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].client, "client a");
  EXPECT_EQ(shares[0].peer, "h1");
  EXPECT_NEAR(shares[0].seconds, 15, 0.1);
  EXPECT_NEAR(shares[0].recent_share, 0.75, 0.02);
  EXPECT_NEAR(shares[1].recent_share, 0.25, 0.02);
  EXPECT_EQ(shares[0].calls, 1u);
  EXPECT_EQ(queue.Shares(1, threads.now()).size(), 1u);
}

TEST(FairQueue, ForgetsWhoIsGone) {
  FairQueue queue(kTimed);
  Threads threads(queue, 1);
  for (int i = 0; i < 3000; ++i) {
    threads.Add(Of("plan" + std::to_string(i), "a", "h"), kMicro, 1);
    threads.Run(kMilli);
  }
  EXPECT_LE(queue.Shares(100'000, threads.now()).size(),
            2 * FairQueue::kMaxIdleClients);
  threads.Run(2 * FairQueue::kForgetNanos);
  EXPECT_EQ(queue.Shares(10, threads.now()).size(), 0u);
}

// A loader that requested a window of 55 slow batches waited for the first one
// while the server worked as much on the 28th.
TEST(FairQueue, TheEarliestCallOfALoaderHasMostTurns) {
  FairQueue queue(kTimed);
  Threads threads(queue, 1);
  const auto third = threads.Add(OfLoader({.epoch = 1, .step = 2}), kMilli);
  const auto second = threads.Add(OfLoader({.epoch = 0, .step = 27}), kMilli);
  const auto first =
      threads.Add(OfLoader({.epoch = 0, .step = 0}), kMilli, 6000);
  threads.Run(8 * kSecond);
  // But for a turn.
  EXPECT_NEAR(first->given, 6 * kSecond, kMilli);
  EXPECT_NEAR(second->given, kSecond, kMilli) << "it may not be silent";
  EXPECT_NEAR(third->given, kSecond, kMilli);
  threads.Run(8 * kSecond);
  EXPECT_NEAR(second->given, 7 * kSecond, 2 * kMilli) << "now the earliest";
  EXPECT_NEAR(third->given, 3 * kSecond, 2 * kMilli);
}

// A call that was silent for long is requested again. The first one goes on,
// and its work is not done a second time before it.
TEST(FairQueue, OfTwoCallsForTheSameBatchesTheOlderIsFirst) {
  FairQueue queue(kTimed);
  Threads threads(queue, 1);
  const auto newer = threads.Add(OfLoader({.step = 3, .call = 8}), kMilli);
  const auto older = threads.Add(OfLoader({.step = 3, .call = 7}), kMilli);
  threads.Run(8 * kSecond);
  EXPECT_NEAR(older->given, 6 * kSecond, kMilli);
  EXPECT_NEAR(newer->given, 2 * kSecond, kMilli);
}

TEST(FairQueue, ACallOfALoaderWorksInTheOrderOfItsSteps) {
  FairQueue queue(kTimed);
  Threads threads(queue, 1);
  const auto sharer = OfLoader({.step = 4});
  const auto other = threads.Add(OfLoader({.step = 27}), kMilli);
  const auto later = threads.Add(sharer, kMilli, UINT64_MAX, /*order=*/6);
  const auto one = threads.Add(sharer, kMilli, 3000, /*order=*/4);
  const auto two = threads.Add(sharer, kMilli, 3000, /*order=*/4);
  threads.Run(4 * kSecond);
  EXPECT_NEAR(Ratio(one, two), 1, 0.01);
  EXPECT_NEAR(one->given + two->given, 3 * kSecond, kMilli);
  EXPECT_EQ(later->given, 0);
  EXPECT_NEAR(other->given, kSecond, kMilli);
  threads.Run(8 * kSecond);
  EXPECT_NEAR(later->given, 3 * kSecond, 2 * kMilli);
}

// Without an id, the calls of a connection may be those of several loaders.
TEST(FairQueue, CallsWithoutAPositionHaveEqualTurns) {
  FairQueue queue(kTimed);
  Threads threads(queue, 1);
  std::vector<std::shared_ptr<Call>> calls;
  for (uint64_t i = 0; i < 5; ++i) {
    calls.push_back(
        threads.Add(Of("plan", "connection", "h"), kMilli, UINT64_MAX, 5 - i));
  }
  threads.Run(10 * kSecond);
  for (const auto& call : calls) EXPECT_NEAR(Ratio(call, calls[0]), 1, 0.01);
}

TEST(FairQueue, RemovedCallsHaveNoTurn) {
  FairQueue queue(kTimed);
  const auto sharer = Of("a", "a", "h");
  const auto one = std::make_shared<Call>(sharer, kMilli);
  const auto two = std::make_shared<Call>(sharer, kMilli);
  queue.Remove(one.get());  // it has never had work
  queue.Push(one, 0);
  queue.Push(two, 0);
  queue.Remove(one.get());
  EXPECT_EQ(queue.Next(1), two.get());
  queue.Remove(two.get());
  EXPECT_EQ(queue.Next(1), nullptr);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace millrace::pipeline
