#include "server/decode/large_image_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace millrace {
namespace {

TEST(LargeImageGate, WhatIsInsideFitsTogetherOrIsAlone) {
  LargeImageGate gate(100);
  std::atomic<int64_t> inside = 0;
  std::atomic<int> images = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const int64_t bytes = 30 * ((i + t) % 5 + 1);  // 30 to 150
        LargeImageGate::Admission admission;
        admission.Enter(gate, bytes);
        const int64_t together = inside += bytes;
        EXPECT_TRUE(together <= 100 || together == bytes) << together;
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
  first.Enter(gate, 50);
  second.Enter(gate, 50);  // would hang
}

}  // namespace
}  // namespace millrace
