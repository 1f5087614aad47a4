#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/bounded_queue.h"
#include "common/deadline_timer.h"
#include "common/thread_pool.h"

namespace millrace {
namespace {

TEST(BoundedQueue, KeepsItsOrder) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.Push(1));
  EXPECT_TRUE(queue.Push(2));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_TRUE(queue.Push(3));
  EXPECT_EQ(queue.size(), 2u);
  queue.Close();
  EXPECT_FALSE(queue.Push(4));
  EXPECT_EQ(queue.Pop(), 2);
  EXPECT_EQ(queue.Pop(), 3);
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

TEST(BoundedQueue, EveryItemArrivesOnceWithinTheBound) {
  BoundedQueue<int> queue(3);
  std::vector<std::atomic<int>> seen(3000);
  std::vector<std::thread> threads;
  for (int p = 0; p < 3; ++p) {
    threads.emplace_back([&, p] {
      for (int i = 0; i < 1000; ++i) EXPECT_TRUE(queue.Push(p * 1000 + i));
    });
  }
  std::vector<std::thread> consumers;
  for (int c = 0; c < 2; ++c) {
    consumers.emplace_back([&] {
      while (auto item = queue.Pop()) {
        seen[*item].fetch_add(1);
        EXPECT_LE(queue.size(), 3u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  queue.Close();
  for (std::thread& consumer : consumers) consumer.join();
  for (const auto& count : seen) EXPECT_EQ(count.load(), 1);
}

TEST(BoundedQueue, CloseWakesWhoWaits) {
  BoundedQueue<int> empty(1), full(1);
  full.Push(1);
  std::thread consumer([&] { EXPECT_EQ(empty.Pop(), std::nullopt); });
  std::thread producer([&] { EXPECT_FALSE(full.Push(2)); });
  empty.Close();
  full.Close();
  consumer.join();
  producer.join();
}

TEST(ThreadPool, RunsAllThatWasSubmitted) {
  std::atomic<int> ran{0};
  ThreadPool pool("pool", 3, 2);
  for (int i = 0; i < 500; ++i) {
    EXPECT_TRUE(pool.Submit([&] { ran.fetch_add(1); }));
  }
  pool.Close();
  EXPECT_EQ(ran.load(), 500);
  EXPECT_FALSE(pool.Submit([&] { ran.fetch_add(1); }));
  pool.Close();
  EXPECT_EQ(ran.load(), 500);
}

TEST(ThreadPool, NamesItsThreads) {
  BoundedQueue<std::string> names(1);
  ThreadPool pool("mr-pool-with-a-long-name", 1, 1);
  pool.Submit([&] {
    char name[16];
    pthread_getname_np(pthread_self(), name, sizeof(name));
    names.Push(name);
  });
  EXPECT_EQ(names.Pop(), "mr-pool-with-a-");
}

TEST(DeadlineTimer, CallsTheFirstDeadlineFirst) {
  BoundedQueue<int> order(3);
  DeadlineTimer timer("timer");
  timer.After(absl::Milliseconds(50), [&] { order.Push(2); });
  timer.After(absl::Milliseconds(10), [&] { order.Push(1); });
  timer.After(absl::Seconds(-1), [&] { order.Push(0); });
  EXPECT_EQ(order.Pop(), 0);
  EXPECT_EQ(order.Pop(), 1);
  EXPECT_EQ(order.Pop(), 2);
}

TEST(DeadlineTimer, ACancelledCallNeverRuns) {
  BoundedQueue<int> order(3);
  DeadlineTimer timer("timer");
  const auto id = timer.After(absl::Hours(1), [&] { order.Push(1); });
  const auto last = timer.After(absl::Milliseconds(10), [&] { order.Push(2); });
  EXPECT_TRUE(timer.Cancel(id));
  EXPECT_FALSE(timer.Cancel(id));
  EXPECT_EQ(order.Pop(), 2);
  EXPECT_FALSE(timer.Cancel(last));
}

TEST(DeadlineTimer, WhatIsNotDueIsDroppedAtTheEnd) {
  bool ran = false;
  {
    DeadlineTimer timer("timer");
    timer.After(absl::InfiniteDuration(), [&] { ran = true; });
    timer.After(absl::Hours(1), [&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace millrace
