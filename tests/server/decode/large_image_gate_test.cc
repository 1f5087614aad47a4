#include "server/decode/large_image_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::decode {
namespace {

TEST(LargeImageGate, WhatIsInsideFitsTogether) {
  LargeImageGate gate(100);
  std::atomic<int64_t> inside = 0;
  std::atomic<int> images = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const int64_t bytes = 20 * ((i + t) % 5 + 1);  // 20 to 100
        LargeImageGate::Admission admission;
        gate.Enter(bytes, &admission);
        const int64_t together = inside += bytes;
        EXPECT_LE(together, 100);
        ++images;
        inside -= bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(images, 3000);
}

TEST(LargeImageGate, TwoThatFitAreInsideTogether) {
  LargeImageGate gate(100);
  LargeImageGate::Admission first;
  LargeImageGate::Admission second;
  gate.Enter(50, &first);
  gate.Enter(50, &second);  // would hang
}

TEST(LargeImageGate, WhoFindsNoRoomIsLetInLaterInOrder) {
  LargeImageGate gate(100);
  LargeImageGate::Admission first;
  ASSERT_TRUE(gate.TryEnter(80, &first));
  EXPECT_EQ(first.bytes(), 80);
  std::vector<int> order;
  std::vector<LargeImageGate::Admission> admitted;
  const auto wait = [&](int64_t bytes, int number) {
    gate.EnterAsync(bytes, {},
                    [&, number](LargeImageGate::Admission admission) {
                      order.push_back(number);
                      admitted.push_back(std::move(admission));
                    });
  };
  wait(100, 1);
  wait(10, 2);
  LargeImageGate::Admission small;
  EXPECT_FALSE(gate.TryEnter(10, &small)) << "the large one came first";
  EXPECT_TRUE(order.empty());
  first.Leave();
  EXPECT_EQ(order, std::vector<int>({1}));
  std::exchange(admitted, {}).clear();
  EXPECT_EQ(order, std::vector<int>({1, 2}));
  EXPECT_TRUE(gate.TryEnter(90, &small));
}

// Requests that wait at a gate with room for one of them, and the order in
// which they are admitted.
class WaitingRequests {
 public:
  WaitingRequests() { gate_.Enter(100, &inside_); }

  void Add(const std::string& line, uint64_t epoch, uint64_t step,
           int64_t bytes = 100) {
    gate_.EnterAsync(
        bytes, {.line = line, .epoch = epoch, .step = step},
        [this, line, epoch, step](LargeImageGate::Admission admission) {
          order_.push_back(absl::StrCat(line, epoch, ".", step));
          inside_ = std::move(admission);
        });
  }

  std::string Order() {
    while (inside_.bytes() > 0) {
      LargeImageGate::Admission last = std::move(inside_);
      last.Leave();  // may fill inside_
    }
    return absl::StrJoin(order_, " ");
  }

 private:
  LargeImageGate gate_{100};
  std::vector<std::string> order_;
  LargeImageGate::Admission inside_;
};

// They came in the order of arrival: the first batch was whole when the images
// of all steps of the window had been decoded.
TEST(LargeImageGate, TheEarliestStepOfAClientIsFirst) {
  WaitingRequests requests;
  for (const uint64_t step : {4, 2, 4, 3}) requests.Add("a", 0, step);
  requests.Add("a", 1, 0);
  requests.Add("a", 0, 5);
  requests.Add("a", 0, 2);
  EXPECT_EQ(requests.Order(), "a0.2 a0.2 a0.3 a0.4 a0.4 a0.5 a1.0");
}

TEST(LargeImageGate, ClientsTakeTurns) {
  WaitingRequests requests;
  for (const uint64_t step : {10, 11, 12, 13}) requests.Add("a", 0, step);
  requests.Add("b", 7, 1);
  requests.Add("b", 7, 0);
  requests.Add("c", 0, 0);
  EXPECT_EQ(requests.Order(), "a0.10 b7.0 c0.0 a0.11 b7.1 a0.12 a0.13");
}

// The small ones would fit all the time.
TEST(LargeImageGate, SmallImagesDoNotOvertakeALargeOneThatIsNext) {
  LargeImageGate gate(100);
  LargeImageGate::Admission inside;
  ASSERT_TRUE(gate.TryEnter(60, &inside));
  std::vector<LargeImageGate::Admission> admitted;
  const auto keep = [&](LargeImageGate::Admission admission) {
    admitted.push_back(std::move(admission));
  };
  gate.EnterAsync(100, {.line = "a", .step = 1}, keep);
  gate.EnterAsync(10, {.line = "a", .step = 2}, keep);
  gate.EnterAsync(10, {.line = "b", .step = 0}, keep);
  EXPECT_TRUE(admitted.empty());
  inside.Leave();
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].bytes(), 100);
  std::exchange(admitted, {}).clear();
  EXPECT_EQ(admitted.size(), 2u);
}

TEST(LargeImageGate, TheBudgetDecidesHowManyAreInside) {
  ByteBudget budget(1000);
  LargeImageGate gate(100, &budget);
  std::vector<LargeImageGate::Admission> inside(12);
  for (int i = 0; i < 11; ++i) {
    EXPECT_TRUE(gate.TryEnter(100, &inside[i])) << i;
  }
  EXPECT_EQ(budget.used(), 1000u);
  EXPECT_FALSE(gate.TryEnter(100, &inside[11]));
  inside[3].Leave();  // one that is charged
  EXPECT_TRUE(gate.TryEnter(100, &inside[11]));
  inside.clear();
  EXPECT_EQ(budget.used(), 0u);
}

// A budget that others have whole still lets one in after the other. The bytes
// of the gate are beside it: the owner has taken them out of the budget.
TEST(LargeImageGate, AFullBudgetHoldsUpNobodyForEver) {
  ByteBudget budget(1000);
  ByteBudget::Reservation all;
  ASSERT_TRUE(budget.TryReserve(1000, &all));
  LargeImageGate gate(100, &budget);
  int let_in = 0;
  LargeImageGate::Admission first;
  ASSERT_TRUE(gate.TryEnter(100, &first));
  for (int i = 0; i < 5; ++i) {
    gate.EnterAsync(100, {}, [&](LargeImageGate::Admission) { ++let_in; });
  }
  EXPECT_EQ(let_in, 0);
  first.Leave();
  EXPECT_EQ(let_in, 5);
}

}  // namespace
}  // namespace millrace::decode
