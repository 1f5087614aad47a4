#include "client/prefetch/request_budget.h"

#include <gtest/gtest.h>

namespace millrace::prefetch {
namespace {

// Nothing is outstanding, of 100 batches, at one server.
constexpr RequestBudget kIdle = {
    .total = 100, .slots = 8, .window = 8, .servers = 1};

TEST(RequestBudgetTest, HalfTheWindowIsOneCall) {
  RequestBudget budget = kIdle;
  EXPECT_EQ(budget.Free(), 8);
  EXPECT_EQ(budget.Chunk(1), 4);
  budget.end = 8;
  EXPECT_EQ(budget.Free(), 0);
  EXPECT_FALSE(budget.RoomForCall());
  budget.next = 3;
  EXPECT_EQ(budget.Free(), 3);
  EXPECT_FALSE(budget.RoomForCall()) << "a call for each batch";
  budget.next = 4;
  EXPECT_TRUE(budget.RoomForCall());
}

TEST(RequestBudgetTest, WhatTheConsumerHoldsIsNotFree) {
  RequestBudget budget = kIdle;
  budget.next = 6;
  budget.end = 8;
  budget.held = 6;
  EXPECT_EQ(budget.Free(), 0);
  budget.held = 5;
  EXPECT_EQ(budget.Free(), 1);
  EXPECT_EQ(budget.Chunk(1), 1) << "small calls where few slots are left";
  EXPECT_TRUE(budget.RoomForCall());
}

TEST(RequestBudgetTest, ASmallerWindowLeavesSlotsToTheConsumer) {
  RequestBudget budget = kIdle;
  budget.window = 4;
  budget.held = 4;
  EXPECT_EQ(budget.Free(), 4);
  EXPECT_EQ(budget.Chunk(1), 2);
  budget.held = 6;
  EXPECT_EQ(budget.Free(), 2);
}

TEST(RequestBudgetTest, ServersGetTheirShareOfHalfTheWindow) {
  RequestBudget budget = kIdle;
  budget.slots = budget.window = 16;
  budget.servers = 2;
  EXPECT_EQ(budget.Chunk(0.5), 4);
  EXPECT_EQ(budget.Chunk(0.55), 4) << "about equal";
  EXPECT_EQ(budget.Chunk(0.75), 6);
  EXPECT_EQ(budget.Chunk(0.01), 1);
  budget.servers = 0;
  EXPECT_EQ(budget.Chunk(0), 1) << "to see whether it serves the plan again";
}

TEST(RequestBudgetTest, TheLastBatchesAreRequestedAtOnce) {
  RequestBudget budget = kIdle;
  budget.total = 10;
  budget.next = 2;
  budget.end = 9;
  EXPECT_EQ(budget.Free(), 1);
  EXPECT_TRUE(budget.RoomForCall());
  budget.end = 10;
  EXPECT_FALSE(budget.RoomForCall());
}

TEST(RequestBudgetTest, NumbersOfTwoPlacesDoNotWrap) {
  RequestBudget budget = kIdle;
  budget.next = 50;
  budget.end = 3;
  budget.held = 20;
  EXPECT_EQ(budget.Free(), 0);
  EXPECT_EQ(budget.Chunk(1), 1);
  budget.held = 0;
  EXPECT_EQ(budget.Free(), 8);
}

}  // namespace
}  // namespace millrace::prefetch
