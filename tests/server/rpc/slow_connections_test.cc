// Many slow connections of an address beside a prompt one, in simulated time:
// how long the prompt one takes, and that everybody progresses. The clients,
// the engine and the registry's thread are played; ClientShares is the real
// one.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "gtest/gtest.h"
#include "server/rpc/client_shares.h"
#include "server/rpc/reader_pace.h"

namespace millrace::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Memory for 14 batches: 10 for the only host, and one in the reserve.
constexpr uint64_t kBatch = 1'000'000;
constexpr uint64_t kMemory = 14 * kBatch;
constexpr int kShare = 10;
constexpr seconds kTimeout{2};
// A batch of 9.6 MB at 85 kB/s, and at 480 kB/s where all come to their turn.
constexpr seconds kSlowBatch{113};
constexpr seconds kLessSlowBatch{20};
constexpr milliseconds kPromptBatch{8};
// To make a batch.
constexpr milliseconds kMake{2};
// Between two looks of the registry, and until a client calls again.
constexpr milliseconds kTick{15};
constexpr milliseconds kRetry{50};
constexpr uint64_t kForEver = 1'000'000'000;

struct Reader {
  std::string name;
  milliseconds takes{0};  // to read a batch
  milliseconds comes{0};
  uint64_t wants = kForEver;  // batches
  bool reconnects = false;    // calls again over a new connection
  milliseconds pause{0};      // between a batch and the next request

  std::unique_ptr<ClientShares::Member> call;
  bool room = false;  // on_room was called
  bool has = false;   // a batch
  SteadyTime ready;   // of the batch
  std::chrono::nanoseconds noted{0};
  SteadyTime calls_at;
  int connections = 0;
  uint64_t sent = 0;
  uint64_t lost = 0;  // taken back
  uint64_t lost_in_a_row = 0;
  uint64_t most_lost_in_a_row = 0;
  milliseconds done_at{0};
};

class Simulation {
 public:
  Reader& Add(const std::string& name, milliseconds takes, milliseconds comes,
              uint64_t wants = kForEver) {
    auto reader = std::make_unique<Reader>();
    reader->name = name;
    reader->takes = takes;
    reader->comes = comes;
    reader->wants = wants;
    reader->calls_at = At(comes);
    readers_.push_back(std::move(reader));
    return *readers_.back();
  }

  // Readers that do not read a batch in time, from the start.
  std::vector<Reader*> AddSlow(int count, seconds takes = kSlowBatch) {
    std::vector<Reader*> slow;
    for (int i = 0; i < count; ++i) {
      slow.push_back(&Add("slow " + std::to_string(i), takes, milliseconds(i)));
    }
    return slow;
  }

  void RunUntil(milliseconds end) {
    for (; now_ < At(end); now_ += milliseconds(1)) Step();
  }
  // Until `reader` has all that it wants. False: not by `end`.
  bool RunUntilDone(const Reader& reader, milliseconds end) {
    for (; now_ < At(end); now_ += milliseconds(1)) {
      if (reader.done_at > milliseconds(0)) return true;
      Step();
    }
    return false;
  }

 private:
  static SteadyTime At(milliseconds time) {
    return SteadyTime(std::chrono::hours(1)) + time;
  }

  void Step() {
    for (const auto& reader : readers_) Act(*reader);
    if (now_ >= next_look_) {
      next_look_ = now_ + kTick;
      Look();
    }
  }

  static void Call(const std::vector<std::function<void()>>& woken) {
    for (const auto& on_room : woken) on_room();
  }

  void Ask(Reader& reader) {
    reader.room = false;
    if (reader.has || reader.call->Take(1) == 0) return;
    reader.has = true;
    reader.ready = now_ + kMake;
    reader.noted = {};
  }

  void Act(Reader& reader) {
    if (reader.call == nullptr) {
      if (now_ < reader.calls_at || reader.sent == reader.wants) return;
      if (reader.reconnects || reader.connections == 0) ++reader.connections;
      const std::string connection =
          reader.name + " " + std::to_string(reader.connections);
      reader.call =
          shares_.Join({.host = "h",
                        .connection = connection,
                        .client = connection,
                        .step_bytes = kBatch,
                        .on_room = [&reader] { reader.room = true; }});
      Ask(reader);
    }
    if (reader.room) Ask(reader);
    if (!reader.has || now_ < reader.ready + reader.takes) return;
    reader.has = false;
    ++reader.sent;
    reader.lost_in_a_row = 0;
    const bool more =
        reader.sent < reader.wants && reader.pause == milliseconds(0);
    reader.call->Sent(reader.noted);
    Call(reader.call->Return(1, more));
    if (more) {
      Ask(reader);
      return;
    }
    reader.call.reset();
    reader.calls_at = now_ + reader.pause;
    if (reader.sent == reader.wants) {
      reader.done_at =
          std::chrono::duration_cast<milliseconds>(now_ - At(reader.comes));
    }
  }

  // As StreamRegistry does.
  void Look() {
    for (const auto& reader : readers_) {
      if (reader->call == nullptr || !reader->has || now_ < reader->ready ||
          now_ - reader->ready < shares_.times().probe) {
        continue;
      }
      reader->noted = now_ - reader->ready;
      Call(reader->call->Waits(reader->noted));
    }
    for (const auto& reader : readers_) {
      if (reader->call == nullptr || !reader->has || now_ < reader->ready) {
        continue;
      }
      if (!reader->call->LeaveReserve(now_ - reader->ready)) continue;
      // The call ends.
      Call(reader->call->ReturnAll());
      reader->has = false;
      reader->call.reset();
      reader->calls_at = now_ + kRetry;
      ++reader->lost;
      reader->most_lost_in_a_row =
          std::max(reader->most_lost_in_a_row, ++reader->lost_in_a_row);
    }
    Call(shares_.Look());
  }

  SteadyTime now_ = At(milliseconds(0));
  SteadyTime next_look_ = now_;
  ClientShares shares_{kMemory, kTimeout, [this] { return now_; }};
  // After shares_, because calls end before it.
  std::vector<std::unique_ptr<Reader>> readers_;
};

constexpr uint64_t kAudit = 60;  // batches

milliseconds Alone() {
  Simulation simulation;
  const Reader& audit =
      simulation.Add("audit", kPromptBatch, milliseconds(0), kAudit);
  EXPECT_TRUE(simulation.RunUntilDone(audit, minutes(1)));
  return audit.done_at;
}

struct Beside {
  int slow = 0;
  int64_t comes_ms = 0;  // the audit, after the slow ones
};

class BesideSlowConnections : public ::testing::TestWithParam<Beside> {};

// An audit took 11 s beside 20 slow connections, and 43 s beside 50.
TEST_P(BesideSlowConnections, APromptOneTakesAtMostThreeTimesAsLong) {
  Simulation simulation;
  simulation.AddSlow(GetParam().slow);
  const Reader& audit = simulation.Add(
      "audit", kPromptBatch, milliseconds(GetParam().comes_ms), kAudit);
  EXPECT_TRUE(simulation.RunUntilDone(audit, minutes(5)));
  EXPECT_LE(audit.done_at.count(), 3 * Alone().count());
  EXPECT_EQ(audit.lost, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Numbers, BesideSlowConnections,
    ::testing::Values(Beside{10, 3000}, Beside{20, 500}, Beside{20, 3000},
                      Beside{30, 3000}, Beside{50, 500}, Beside{50, 1000},
                      Beside{50, 3000}, Beside{50, 8000}, Beside{50, 30'000},
                      Beside{50, 200'000}, Beside{200, 3000}));

// Slow clients that open a new connection for each call are new each time, as a
// prompt one is. It waits for a short turn or two of each of them at most.
TEST(SlowConnectionsTest, ThoseThatReconnectHaveShortTurns) {
  constexpr int kSlow = 50;
  constexpr milliseconds kTurn{80};
  Simulation simulation;
  for (Reader* const slow : simulation.AddSlow(kSlow)) slow->reconnects = true;
  for (const int64_t comes : {700, 3000, 20'000}) {
    const Reader& audit =
        simulation.Add("audit " + std::to_string(comes), kPromptBatch,
                       milliseconds(comes), kAudit);
    EXPECT_TRUE(simulation.RunUntilDone(audit, minutes(5)));
    EXPECT_LE(audit.done_at.count(),
              (2 * (kSlow - kShare) * kTurn + 3 * Alone()).count())
        << comes;
  }
}

// A client that requests one batch after another, with a pause between.
TEST(SlowConnectionsTest, APromptOneMayPause) {
  Simulation simulation;
  simulation.AddSlow(50);
  Reader& job = simulation.Add("job", kPromptBatch, milliseconds(3000), kAudit);
  job.pause = milliseconds(100);
  ASSERT_TRUE(simulation.RunUntilDone(job, minutes(5)));
  EXPECT_LE(job.done_at, 3 * kAudit * (job.pause + kPromptBatch + kMake));
}

// Each slow connection gets whole batches, one after the other, while a prompt
// one uses the reserve all the time: it loses few before it has one.
TEST(SlowConnectionsTest, EverySlowOneProgresses) {
  Simulation simulation;
  const std::vector<Reader*> slow = simulation.AddSlow(50, kLessSlowBatch);
  const Reader& job = simulation.Add("job", kPromptBatch, milliseconds(3000));
  // Each connection's turn in the share comes every 50 / 10 slow batches.
  simulation.RunUntil(50 / kShare * 3 * kLessSlowBatch + minutes(1));
  uint64_t sent = 0;
  for (const Reader* const one : slow) {
    EXPECT_GE(one->sent, 2) << one->name;
    EXPECT_LE(one->most_lost_in_a_row, 4) << one->name;
    sent += one->sent;
  }
  // No memory of the share is idle.
  EXPECT_GE(sent, kShare * 16);
  EXPECT_GE(job.sent, 15'000);
}

// A link on which a batch takes 0.8 s is not slow, and not prompt. Its job goes
// on beside slow connections and a prompt one.
TEST(SlowConnectionsTest, AMediumLinkProgressesBesideBoth) {
  for (const bool has_prompt : {false, true}) {
    Simulation simulation;
    simulation.AddSlow(25);
    const Reader& medium =
        simulation.Add("medium", milliseconds(800), milliseconds(1000));
    if (has_prompt) {
      simulation.Add("job", kPromptBatch, milliseconds(3000));
    }
    // All others are known by then.
    simulation.RunUntil(minutes(3));
    const uint64_t before = medium.sent;
    const uint64_t lost = medium.lost;
    simulation.RunUntil(minutes(4));
    // Alone it takes 75 in a minute.
    EXPECT_GE(medium.sent - before, has_prompt ? 14 : 60);
    EXPECT_LE(medium.lost - lost, has_prompt ? 3 : 0);
  }
}

// Two prompt ones have the same, and nothing of theirs is taken back.
TEST(SlowConnectionsTest, PromptOnesShareTheReserve) {
  Simulation simulation;
  simulation.AddSlow(50);
  const Reader& a = simulation.Add("a", kPromptBatch, milliseconds(3000));
  const Reader& b = simulation.Add("b", kPromptBatch, milliseconds(5000));
  simulation.RunUntil(seconds(60));
  const uint64_t before_a = a.sent;
  const uint64_t before_b = b.sent;
  simulation.RunUntil(seconds(70));
  EXPECT_NEAR(static_cast<double>(a.sent - before_a),
              static_cast<double>(b.sent - before_b), 5);
  EXPECT_EQ(a.lost + b.lost, 0);
}

}  // namespace
}  // namespace millrace::rpc
