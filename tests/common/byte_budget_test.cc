#include "common/byte_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace millrace {
namespace {

TEST(ByteBudget, GivesAndTakesBack) {
  ByteBudget budget(100);
  {
    ByteBudget::Reservation a, b;
    EXPECT_TRUE(budget.TryReserve(60, &a));
    EXPECT_EQ(a.bytes(), 60u);
    EXPECT_FALSE(budget.TryReserve(41, &b));
    EXPECT_TRUE(budget.TryReserve(40, &b));
    EXPECT_EQ(budget.used(), 100u);
    a = std::move(b);  // gives the 60 back
    EXPECT_EQ(budget.used(), 40u);
    EXPECT_EQ(b.bytes(), 0u);
    a.Release();
    a.Release();
    EXPECT_EQ(budget.used(), 0u);
  }
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(budget.peak(), 100u);
}

TEST(ByteBudget, ALargeRequestIsNotOvertaken) {
  ByteBudget budget(100);
  ByteBudget::Reservation held;
  ASSERT_TRUE(budget.TryReserve(50, &held));
  std::vector<int> order;
  std::vector<ByteBudget::Reservation> granted;
  const auto note = [&](int who) {
    return [&, who](ByteBudget::Reservation r) {
      order.push_back(who);
      granted.push_back(std::move(r));
    };
  };
  EXPECT_NE(budget.ReserveAsync(80, note(1)), 0u);
  EXPECT_NE(budget.ReserveAsync(10, note(2)), 0u);  // would fit
  ByteBudget::Reservation mine;
  EXPECT_FALSE(budget.TryReserve(1, &mine));
  EXPECT_EQ(budget.waiting(), 2u);
  EXPECT_TRUE(order.empty());
  held.Release();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(budget.used(), 90u);
  EXPECT_EQ(budget.waiting(), 0u);
}

TEST(ByteBudget, GrantsAtOnceWhenThereIsRoom) {
  ByteBudget budget(100);
  bool ran = false;
  EXPECT_EQ(
      budget.ReserveAsync(
          100, [&](ByteBudget::Reservation r) { ran = r.bytes() == 100; }),
      0u);
  EXPECT_TRUE(ran);
}

TEST(ByteBudget, ACancelledWaitNeverRunsAndMakesWay) {
  ByteBudget budget(100);
  ByteBudget::Reservation held;
  ASSERT_TRUE(budget.TryReserve(50, &held));
  bool first = false, second = false;
  const auto ticket =
      budget.ReserveAsync(80, [&](ByteBudget::Reservation) { first = true; });
  budget.ReserveAsync(30, [&](ByteBudget::Reservation) { second = true; });
  EXPECT_TRUE(budget.CancelWait(ticket));
  EXPECT_FALSE(budget.CancelWait(ticket));
  EXPECT_FALSE(first);
  EXPECT_TRUE(second);
}

TEST(ByteBudget, CallbacksMayUseTheBudget) {
  ByteBudget budget(10);
  ByteBudget::Reservation held;
  ASSERT_TRUE(budget.TryReserve(10, &held));
  int depth = 0;
  std::function<void(ByteBudget::Reservation)> again =
      [&](ByteBudget::Reservation r) {
        r.Release();
        if (++depth < 100) budget.ReserveAsync(10, again);
      };
  budget.ReserveAsync(10, again);
  held.Release();
  EXPECT_EQ(depth, 100);
  EXPECT_EQ(budget.used(), 0u);
}

// All threads together never hold more than there is, and none waits for ever.
TEST(ByteBudget, HoldsUnderManyThreads) {
  constexpr uint64_t kCapacity = 1000;
  ByteBudget budget(kCapacity);
  std::atomic<uint64_t> in_use{0};
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const uint64_t bytes = 1 + (t * 977 + i * 131) % kCapacity;
        const auto use = [&, bytes](ByteBudget::Reservation r) {
          EXPECT_LE(in_use.fetch_add(bytes) + bytes, kCapacity);
          in_use.fetch_sub(bytes);
          done.fetch_add(1);
        };
        const ByteBudget::Ticket ticket = budget.ReserveAsync(bytes, use);
        if (ticket != 0 && i % 7 == 0 && budget.CancelWait(ticket)) {
          done.fetch_add(1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done.load(), 2000);
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(budget.waiting(), 0u);
  EXPECT_LE(budget.peak(), kCapacity);
}

TEST(ByteBudget, WhatIsBorrowedIsThereForWhoNeedsIt) {
  ByteBudget budget(100);
  uint64_t reclaimed = 0;
  budget.SetReclaim([&](uint64_t bytes) {
    reclaimed += bytes;
    budget.Repay(bytes);
  });
  ByteBudget::Reservation a, b, c;
  ASSERT_TRUE(budget.TryReserve(40, &a));
  EXPECT_TRUE(budget.Borrow(50));
  EXPECT_FALSE(budget.Borrow(11));
  EXPECT_EQ(budget.used(), 40u);
  EXPECT_TRUE(budget.TryReserve(10, &b));
  EXPECT_EQ(reclaimed, 0u);
  EXPECT_TRUE(budget.TryReserve(30, &c));
  EXPECT_EQ(reclaimed, 30u);
  // In line, too.
  uint64_t when_granted = 0;
  ByteBudget::Reservation d;
  EXPECT_NE(budget.ReserveAsync(50,
                                [&](ByteBudget::Reservation granted) {
                                  when_granted = reclaimed;
                                  d = std::move(granted);
                                }),
            0u);
  EXPECT_FALSE(budget.Borrow(1));
  a.Release();
  EXPECT_EQ(when_granted, 40u);
  EXPECT_EQ(budget.used(), 90u);
  budget.Repay(10);
  EXPECT_TRUE(budget.Borrow(10));
  EXPECT_FALSE(budget.Borrow(1));
}

}  // namespace
}  // namespace millrace
