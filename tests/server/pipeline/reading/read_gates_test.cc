// Reads that wait at the gate of a source pass it in the order in which they
// came: those of the earliest step come first.

#include "server/pipeline/reading/read_gates.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "tests/server/pipeline/engine_fixture.h"

namespace millrace::pipeline {
namespace {

class ReadGatesTest : public testing::Test {
 protected:
  std::shared_ptr<const WaitingSource> Source(uint32_t most) {
    return Waiting(
        Numbers(1), [](int64_t) { return absl::OkStatus(); },
        storage::ReadWait::kRead, most);
  }
  void AwaitWaiting(uint32_t n) {
    while (gates_.waiting() < n) std::this_thread::yield();
  }

  ReadGates gates_;
};

TEST_F(ReadGatesTest, WhoComesFirstPassesFirst) {
  const auto source = Source(1);
  std::optional<ReadGates::Pass> held(std::in_place, gates_, *source);
  std::vector<int> passed;  // guarded by the gate, which lets one inside
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const ReadGates::Pass pass(gates_, *source);
      passed.push_back(i);
    });
    AwaitWaiting(i + 1);
  }
  held.reset();
  {
    // The thread that leaves is not first again, although it is awake.
    const ReadGates::Pass pass(gates_, *source);
    passed.push_back(8);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(gates_.waiting(), 0u);
}

TEST_F(ReadGatesTest, AsManyAreInsideAsTheSourceAllows) {
  const auto two = Source(2);
  const auto other = Source(1);
  const auto free = Source(0);
  std::optional<ReadGates::Pass> a(std::in_place, gates_, *two);
  const ReadGates::Pass b(gates_, *two);
  // Sources do not wait for each other.
  const ReadGates::Pass c(gates_, *other);
  const ReadGates::Pass d(gates_, *free);
  std::thread third([&] {
    const ReadGates::Pass pass(gates_, *two);
    EXPECT_GT(pass.waited().count(), 0);
  });
  AwaitWaiting(1);
  a.reset();
  third.join();
  EXPECT_GT(gates_.WaitedSeconds(), 0);
}

}  // namespace
}  // namespace millrace::pipeline
