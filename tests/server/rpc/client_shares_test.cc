// How clients share the memory for batches.

#include "server/rpc/client_shares.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "gtest/gtest.h"

namespace millrace::rpc {
namespace {

using Member = std::unique_ptr<ClientShares::Member>;

// Memory for 100 batches of this size.
constexpr uint64_t kStep = 1000;
constexpr uint64_t kAll = 1000;  // steps: as many as there are
constexpr std::chrono::seconds kTimeout{2};
constexpr std::chrono::nanoseconds kAtOnce{0};

class ClientSharesTest : public ::testing::Test {
 protected:
  // Each client has a connection of its own unless one is named.
  Member Join(const std::string& host, const std::string& client,
              uint64_t step_bytes = kStep, const std::string& connection = "") {
    const size_t call = woken_.size();
    woken_.push_back(0);
    return shares_.Join({.host = host,
                         .connection = connection.empty() ? client : connection,
                         .client = client,
                         .step_bytes = step_bytes,
                         .on_room = [this, call] { ++woken_[call]; }});
  }

  static void Return(const Member& member, uint64_t steps) {
    for (const auto& on_room : member->Return(steps)) on_room();
  }
  // Its batch waits for too long.
  static void BeSlow(const Member& member) {
    for (const auto& on_room : member->Waits(kTimeout)) on_room();
  }

  ClientShares shares_{100 * kStep, kTimeout};
  std::vector<int> woken_;  // of each call, in their order
};

TEST_F(ClientSharesTest, OneClientLeavesAsMuchToAnother) {
  const Member a = Join("h1", "a");
  EXPECT_EQ(a->Take(kAll), 50);
  EXPECT_EQ(a->Take(kAll), 0);
  // Not one by one.
  Return(a, 24);
  EXPECT_EQ(a->Take(kAll), 0);
  Return(a, 1);
  EXPECT_EQ(a->Take(kAll), 25);
  // Its own steps made room: it did not wait.
  EXPECT_EQ(woken_[0], 0);
  EXPECT_EQ(shares_.starving(), 0);
}

TEST_F(ClientSharesTest, TwoClientsHaveAThirdEach) {
  const Member a = Join("h1", "a");
  const Member b = Join("h1", "b");
  EXPECT_EQ(a->Take(kAll), 33);
  EXPECT_EQ(b->Take(kAll), 33);
}

// What 50 calls of slow readers hold does not grow with their number.
TEST_F(ClientSharesTest, CallsShareTheirClientsPart) {
  std::vector<Member> slow;
  uint64_t taken = 0;
  for (int connection = 0; connection < 10; ++connection) {
    for (int call = 0; call < 5; ++call) {
      slow.push_back(Join("h1", "connection-" + std::to_string(connection)));
    }
  }
  for (const Member& call : slow) taken += call->Take(kAll);
  EXPECT_LE(taken, 75);
  EXPECT_GE(taken, 50);
  // A client that comes then has its part at once.
  const Member good = Join("h1", "good");
  EXPECT_GE(good->Take(kAll), 5);
}

// Ten connections whose five calls had an id each held 50 batches for certain,
// all of the address's part, and nothing was taken back for another client.
TEST(ClientSharesIdsTest, IdsOfAConnectionDoNotFillTheHostsPart) {
  ClientShares shares(25 * kStep, kTimeout);  // 18 for the only host
  int woken = 0;
  const auto join = [&](const std::string& connection,
                        const std::string& client) {
    return shares.Join({.host = "h",
                        .connection = connection,
                        .client = client,
                        .step_bytes = kStep,
                        .on_room = [&woken] { ++woken; }});
  };
  std::vector<Member> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(join(std::to_string(i / 5), "id " + std::to_string(i)));
  }
  std::vector<uint64_t> held;
  for (const Member& call : slow) held.push_back(call->Take(kAll));
  const Member good = join("good", "good");
  EXPECT_EQ(good->Take(kAll), 1);
  // Those that wait have no right to a batch: nothing is taken back for them.
  EXPECT_EQ(shares.starving(), 0);
  // What a connection holds above its part is excess, its last batch is not.
  for (size_t i = 0; i < slow.size(); ++i) {
    if (slow[i]->Excess() == 0) continue;
    for (const auto& on_room : slow[i]->ReturnAll()) on_room();
    held[i] = 0;
  }
  for (int connection = 0; connection < 10; ++connection) {
    uint64_t of_connection = 0;
    for (int i = 0; i < 5; ++i) of_connection += held[5 * connection + i];
    EXPECT_EQ(of_connection, 1) << connection;
  }
  // And does not go to others of these ids.
  EXPECT_EQ(woken, 0);
}

TEST_F(ClientSharesTest, ClientsOfTheOnlyConnectionHaveABatchEach) {
  ClientShares shares(4 * kStep, kTimeout);
  std::vector<Member> clients;
  for (const char* client : {"a", "b", "c"}) {
    clients.push_back(shares.Join({.host = "h",
                                   .connection = "proxy",
                                   .client = client,
                                   .step_bytes = kStep,
                                   .on_room = [] {}}));
    EXPECT_EQ(clients.back()->Take(1), 1) << client;
  }
}

// However many connections one address opens, other addresses find room.
TEST_F(ClientSharesTest, AHostIsBounded) {
  std::vector<Member> many;
  uint64_t taken = 0;
  for (int i = 0; i < 400; ++i) {
    many.push_back(Join("bad", std::to_string(i)));
    taken += many.back()->Take(kAll);
  }
  EXPECT_LE(taken, 75);
  EXPECT_GT(shares_.starving(), 300);
  const Member good = Join("good", "a");
  EXPECT_EQ(good->Take(kAll), 37);
}

// Nothing said why a client got no batch.
TEST_F(ClientSharesTest, AHostWhosePartIsFullIsNamed) {
  constexpr auto kLater = std::chrono::seconds(2);
  const auto full = [this](SteadyTime before) {
    return shares_.FullHosts(before, SteadyTime::min());
  };
  std::vector<Member> slow;
  for (int i = 0; i < 5; ++i) {
    slow.push_back(Join("h1", std::to_string(i), 15 * kStep));
    EXPECT_EQ(slow.back()->Take(1), 1);  // 75 in all: the host's part
  }
  const Member good = Join("h1", "good", 15 * kStep);
  EXPECT_EQ(good->Take(kAll), 0);
  const SteadyTime now = std::chrono::steady_clock::now();
  EXPECT_TRUE(full(now - kLater).empty()) << "it has just come";
  EXPECT_TRUE(shares_.FullHosts(now + kLater, now + 2 * kLater).empty())
      << "the server did not run";
  const auto hosts = full(now + kLater);
  ASSERT_EQ(hosts.size(), 1);
  EXPECT_EQ(hosts[0].host, "h1");
  EXPECT_EQ(hosts[0].clients, 1);
  EXPECT_EQ(hosts[0].connections, 6);
  EXPECT_EQ(hosts[0].held_bytes, 75 * kStep);
  EXPECT_EQ(hosts[0].share_bytes, 75 * kStep);
  // With what is said to be needed it would have had its batch.
  ClientShares larger(hosts[0].needed_bytes, kTimeout);
  std::vector<Member> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(larger.Join({.host = "h1",
                               .connection = std::to_string(i),
                               .client = std::to_string(i),
                               .step_bytes = 15 * kStep,
                               .on_room = [] {}}));
    EXPECT_EQ(all.back()->Take(1), 1) << i;
  }
  // One who has a batch is not shut out, and neither is one who may have one.
  Return(slow[0], 1);
  EXPECT_EQ(woken_.back(), 1);
  EXPECT_TRUE(full(std::chrono::steady_clock::now() + kLater).empty());
}

// Slow connections of an address held its whole part, each with its only batch,
// and another client of the address got nothing until one of them was sent.
TEST_F(ClientSharesTest, APromptConnectionGoesOnBesideSlowOnesOfItsHost) {
  std::vector<Member> slow;
  for (int i = 0; i < 75; ++i) {
    slow.push_back(Join("h1", "slow " + std::to_string(i)));
    ASSERT_EQ(slow.back()->Take(1), 1);
  }
  const Member good = Join("h1", "good", 2 * kStep);
  EXPECT_EQ(good->Take(1), 0);
  for (size_t i = 0; i + 1 < slow.size(); ++i) BeSlow(slow[i]);
  // As soon as two of the batches are known to be those of slow connections.
  EXPECT_EQ(woken_.back(), 1);
  EXPECT_EQ(good->Take(kAll), 1);
  // One at a time, again and again, within half of the free quarter.
  EXPECT_EQ(good->Take(kAll), 0);
  for (int i = 0; i < 10; ++i) {
    Return(good, 1);
    ASSERT_EQ(good->Take(kAll), 1) << i;
  }
  std::vector<Member> others;
  uint64_t taken = 0;
  for (int i = 0; i < 100; ++i) {
    others.push_back(Join("h1", std::to_string(i)));
    taken += others.back()->Take(kAll);
  }
  EXPECT_EQ(taken, 87 - 75 - 2);
  // The slow ones lose nothing by it.
  for (const Member& one : slow) {
    EXPECT_EQ(one->HostExcess(), 0);
    EXPECT_FALSE(one->LeaveReserve(10 * kTimeout));
  }
}

TEST_F(ClientSharesTest, ASlowConnectionGetsNothingBeyondItsHostsPart) {
  std::vector<Member> slow;
  for (int i = 0; i < 75; ++i) {
    slow.push_back(Join("h1", "slow " + std::to_string(i)));
    ASSERT_EQ(slow.back()->Take(1), 1);
    EXPECT_TRUE(slow.back()->Waits(kTimeout).empty());
  }
  // Nobody knows it yet.
  Member late = Join("h1", "late");
  EXPECT_EQ(late->Take(1), 1);
  EXPECT_TRUE(late->Waits(kTimeout).empty());
  // It is taken back for one that is not slow, and for no other.
  EXPECT_FALSE(late->LeaveReserve(kTimeout));
  const Member other_slow = Join("h1", "slow 0");
  EXPECT_EQ(other_slow->Take(1), 0);
  EXPECT_FALSE(late->LeaveReserve(kTimeout));
  const Member good = Join("h1", "good", 12 * kStep);
  EXPECT_EQ(good->Take(1), 0);
  EXPECT_FALSE(good->LeaveReserve(kTimeout));
  for (const Member& one : slow) {
    ASSERT_FALSE(one->LeaveReserve(kTimeout));
    ASSERT_EQ(one->HostExcess(), 0);
  }
  EXPECT_TRUE(late->LeaveReserve(kTimeout));
  for (const auto& on_room : late->ReturnAll()) on_room();
  EXPECT_EQ(woken_.back(), 1);
  EXPECT_EQ(good->Take(1), 1);
  // Once more it waits for its turn, also as another call.
  EXPECT_EQ(late->Take(1), 0);
  late.reset();
  late = Join("h1", "late");
  EXPECT_EQ(late->Take(1), 0);
  Return(good, 1);
  EXPECT_EQ(late->Take(1), 0);
  Return(slow[0], 1);
  EXPECT_EQ(late->Take(1) + other_slow->Take(1), 1);
  // What it then takes at once says that it is slow no more.
  Return(slow[1], 1);
  EXPECT_EQ(late->Take(1) + other_slow->Take(1), 1);
  late->Sent(kAtOnce);
  Return(late, 1);
  Return(slow[2], 1);
  const Member next = Join("h1", "next");
  EXPECT_EQ(next->Take(1), 1);
  EXPECT_EQ(late->Take(1), 1);
}

// Where an eighth of the memory has no room for it, a batch beside slow
// connections is taken back only when its own connection is slow.
TEST_F(ClientSharesTest, ALargeBatchHasNoTurn) {
  std::vector<Member> slow;
  for (int i = 0; i < 5; ++i) {
    slow.push_back(Join("h1", "slow " + std::to_string(i), 14 * kStep));
    ASSERT_EQ(slow.back()->Take(1), 1);
    BeSlow(slow.back());
  }
  const Member large = Join("h1", "large", 14 * kStep);
  EXPECT_EQ(large->Take(1), 1);  // 84 in all
  const Member other = Join("h1", "other", 14 * kStep);
  EXPECT_EQ(other->Take(1), 0);
  EXPECT_FALSE(large->LeaveReserve(10 * kTimeout));
  EXPECT_EQ(large->HostExcess(), 0);
  BeSlow(large);
  EXPECT_EQ(large->HostExcess(), 1);
}

// Parts shrink when another address comes: slow connections then hold more than
// their address's part, and a prompt one of the address gets what is above it.
TEST_F(ClientSharesTest, SlowConnectionsAboveAPartThatShrankGiveItBack) {
  std::vector<Member> slow;
  for (int i = 0; i < 75; ++i) {
    slow.push_back(Join("h1", "slow " + std::to_string(i)));
    ASSERT_EQ(slow.back()->Take(1), 1);
    BeSlow(slow.back());
  }
  const Member other = Join("h2", "other", 25 * kStep);
  EXPECT_EQ(other->Take(1), 1);
  EXPECT_EQ(slow[0]->HostExcess(), 0);
  const Member good = Join("h1", "good");
  EXPECT_EQ(good->Take(1), 0);
  EXPECT_EQ(slow[0]->HostExcess(), 1);
  EXPECT_EQ(other->HostExcess(), 0);
}

TEST_F(ClientSharesTest, EveryClientHasOneBatchHoweverLarge) {
  const Member a = Join("h1", "a", 300 * kStep);
  EXPECT_EQ(a->Take(kAll), 1);
  const Member b = Join("h2", "b", 300 * kStep);
  EXPECT_EQ(b->Take(kAll), 1);
  // Of one host, one after the other.
  const Member c = Join("h2", "c", 300 * kStep);
  EXPECT_EQ(c->Take(kAll), 0);
  Return(b, 1);
  EXPECT_EQ(woken_[2], 1);
  EXPECT_EQ(c->Take(kAll), 1);
}

TEST_F(ClientSharesTest, AClientWithNothingComesFirst) {
  ClientShares shares(8 * kStep, kTimeout);  // 6 for the only host
  std::vector<std::string> order;
  const auto join = [&](const std::string& client, const std::string& name) {
    return shares.Join({.host = "h",
                        .connection = client,
                        .client = client,
                        .step_bytes = kStep,
                        .on_room = [&order, name] { order.push_back(name); }});
  };
  std::vector<Member> held;
  for (int i = 0; i < 6; ++i) {
    held.push_back(join(std::to_string(i), ""));
    ASSERT_EQ(held.back()->Take(1), 1);
  }
  const Member more = join("0", "another call of client 0");
  EXPECT_EQ(more->Take(1), 0);
  const Member fresh = join("fresh", "a client with nothing");
  EXPECT_EQ(fresh->Take(1), 0);
  Return(held[3], 1);
  EXPECT_EQ(order, std::vector<std::string>{"a client with nothing"});
  EXPECT_EQ(fresh->Take(kAll), 1);
}

// Small batches keep no large one waiting for ever.
TEST_F(ClientSharesTest, ALargeBatchIsNotOvertakenForEver) {
  const Member small = Join("h", "small");
  EXPECT_EQ(small->Take(kAll), 50);
  const Member large = Join("h", "large", 60 * kStep);
  EXPECT_EQ(large->Take(1), 0);
  int returned = 0;
  while (woken_[1] == 0) {
    Return(small, 1);
    ++returned;
    ASSERT_LE(returned, 50);
    EXPECT_EQ(small->Take(1), 0) << returned;
  }
  EXPECT_EQ(large->Take(1), 1);
}

TEST_F(ClientSharesTest, NorOneOfTheSameConnection) {
  const Member small = Join("h", "small", kStep, "c");
  EXPECT_EQ(small->Take(kAll), 50);
  const Member other = Join("h", "other", kStep, "another connection");
  EXPECT_EQ(other->Take(1), 1);
  const Member large = Join("h", "large", 60 * kStep, "c");
  EXPECT_EQ(large->Take(1), 0);
  int returned = 0;
  while (woken_[2] == 0) {
    Return(small, 1);
    ++returned;
    ASSERT_LE(returned, 50);
    EXPECT_EQ(small->Take(1), 0) << returned;
  }
  EXPECT_EQ(large->Take(1), 1);
}

TEST_F(ClientSharesTest, WhatACallHeldIsFreeWhenItEnds) {
  Member a = Join("h1", "a", 60 * kStep);
  Member b = Join("h1", "b", 60 * kStep);
  EXPECT_EQ(a->Take(1), 1);
  EXPECT_EQ(b->Take(1), 0);
  a.reset();
  EXPECT_EQ(woken_[1], 1);
  // Granted, and not taken: free again, too.
  b.reset();
  const Member c = Join("h1", "c");
  EXPECT_EQ(c->Take(kAll), 50);
}

// Parts shrink as clients come: what is above them can be taken back, but never
// the only batch.
TEST_F(ClientSharesTest, ExcessIsWhatIsAboveThePart) {
  const Member a = Join("h1", "a");
  EXPECT_EQ(a->Take(kAll), 50);
  EXPECT_EQ(a->Excess(), 0);
  const Member b = Join("h2", "b");
  EXPECT_EQ(a->Excess(), 50 - 37);
  std::vector<Member> others;
  for (int i = 0; i < 400; ++i) others.push_back(Join("h2", std::to_string(i)));
  EXPECT_EQ(a->Excess(), 50 - 37);  // of another host
  Return(a, 13);
  EXPECT_EQ(a->Excess(), 0);
  for (const auto& on_room : a->ReturnAll()) on_room();
  EXPECT_EQ(a->Take(kAll), 37);
  EXPECT_EQ(b->Excess(), 0);
  const Member large = Join("h3", "large", 90 * kStep);
  EXPECT_EQ(large->Take(1), 1);
  EXPECT_EQ(large->Excess(), 0);
}

TEST_F(ClientSharesTest, CallsOfAClientThatAreReadInTurnsDoNotBlock) {
  const Member first = Join("h1", "a");
  EXPECT_EQ(first->Take(kAll), 50);
  // Its part is gone, but there is plenty.
  const Member second = Join("h1", "a");
  EXPECT_GE(second->Take(kAll), 1);
}

// Calls by a clock that the test sets. Memory for 16 batches, 12 for the only
// host.
class ClientSharesPatienceTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::milliseconds kUnit = ClientShares::kPatience;

  Member Join(const std::string& client, uint64_t steps,
              const std::string& connection = "") {
    return shares_.Join({.host = "h",
                         .connection = connection.empty() ? client : connection,
                         .client = client,
                         .step_bytes = steps * kStep,
                         .on_room = [this, client] { ++woken_[client]; }});
  }

  // Eight clients of a connection each, with a batch.
  void JoinSmall(const std::string& connection = "") {
    for (int i = 0; i < 8; ++i) {
      small_.push_back(Join("small " + std::to_string(i), 1, connection));
      ASSERT_EQ(small_.back()->Take(1), 1);
      has_.push_back(true);
    }
  }

  void Return(const Member& member) { Call(member->Return(1)); }
  static void Call(const std::vector<std::function<void()>>& woken) {
    for (const auto& on_room : woken) on_room();
  }

  // The batches of the small clients from `first` on are sent, one after the
  // other, and each client requests another. Returns the number of these
  // clients that have a batch then.
  uint64_t SendSmall(size_t first = 0) {
    for (size_t i = first; i < small_.size(); ++i) {
      if (has_[i]) Return(small_[i]);
      has_[i] = small_[i]->Take(1) == 1;
    }
    uint64_t have = 0;
    for (size_t i = first; i < small_.size(); ++i) {
      if (!has_[i]) has_[i] = small_[i]->Take(1) == 1;
      have += has_[i];
    }
    return have;
  }

  SteadyTime now_{std::chrono::hours(1)};
  ClientShares shares_{16 * kStep, kTimeout, [this] { return now_; }};
  std::map<std::string, int> woken_;
  std::vector<Member> small_;
  std::vector<bool> has_;  // each of small_: a batch
};

// Eight clients with small batches took each byte that became free, and a ninth
// one with a large batch got nothing until they ended.
TEST_F(ClientSharesPatienceTest, SmallBatchesDoNotOvertakeALargeOneForEver) {
  ASSERT_NO_FATAL_FAILURE(JoinSmall());
  const Member large = Join("large", 10);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(large->Take(1), 0);
    // For a while.
    EXPECT_EQ(SendSmall(), 8);
    now_ += kUnit - std::chrono::milliseconds(1);
    EXPECT_EQ(SendSmall(), 8);
    EXPECT_EQ(woken_["large"], round);
    now_ += std::chrono::milliseconds(1);
    // The rest goes on beside the large batch.
    EXPECT_EQ(SendSmall(), 2);
    EXPECT_EQ(woken_["large"], round + 1);
    ASSERT_EQ(large->Take(1), 1);
    now_ += 5 * kUnit;
    EXPECT_EQ(SendSmall(), 2);
    Return(large);
    EXPECT_EQ(SendSmall(), 8);
  }
}

// It holds nobody back for longer than it has waited before, whatever the
// others hold and do not give back.
TEST_F(ClientSharesPatienceTest, AHoldEnds) {
  ASSERT_NO_FATAL_FAILURE(JoinSmall());
  const Member stuck = Join("stuck", 3);
  ASSERT_EQ(stuck->Take(1), 1);
  const Member large = Join("large", 10);
  EXPECT_EQ(large->Take(1), 0);
  for (const auto& [units, held] :
       std::vector<std::pair<int, bool>>{{0, false},
                                         {1, true},
                                         {2, false},
                                         {3, false},
                                         {4, true},
                                         {7, true},
                                         {8, false},
                                         {15, false},
                                         {16, true}}) {
    now_ = SteadyTime(std::chrono::hours(1)) + units * kUnit;
    Call(shares_.Look());
    (void)SendSmall();
    EXPECT_EQ(SendSmall(), held ? 0 : 8) << units;
  }
  // As soon as it may have the memory, it has it.
  EXPECT_EQ(woken_["large"], 0);
  Return(stuck);
  EXPECT_EQ(woken_["large"], 1);
}

// What slow connections hold does not become free soon.
TEST_F(ClientSharesPatienceTest, NobodyWaitsForTheMemoryOfSlowConnections) {
  ASSERT_NO_FATAL_FAILURE(JoinSmall());
  for (int i = 0; i < 3; ++i) Call(small_[i]->Waits(kTimeout));
  // Within the host's share and half of the free quarter there are 14.
  const Member large = Join("large", 12);
  EXPECT_EQ(large->Take(1), 0);
  now_ += kUnit;
  EXPECT_EQ(SendSmall(3), 5);
  small_[2]->Sent(kAtOnce);
  EXPECT_EQ(SendSmall(2), 0);
  EXPECT_EQ(woken_["large"], 1);
}

// One that is slow is served, too, and costs the others little.
TEST_F(ClientSharesPatienceTest, ASlowConnectionHoldsOthersBackForAMoment) {
  ASSERT_NO_FATAL_FAILURE(JoinSmall());
  const Member stuck = Join("stuck", 3);
  ASSERT_EQ(stuck->Take(1), 1);
  const Member large = Join("large", 10);
  Call(large->Waits(kTimeout));
  EXPECT_EQ(large->Take(1), 0);
  int held = 0;
  for (int unit = 0; unit < 320; ++unit) {
    Call(shares_.Look());
    (void)SendSmall();
    held += SendSmall() == 0 ? 1 : 0;
    now_ += kUnit;
  }
  EXPECT_EQ(held, 10);
  Return(stuck);
  EXPECT_EQ(woken_["large"], 0);
  now_ += kUnit;
  (void)SendSmall();
  EXPECT_EQ(woken_["large"], 1);
}

TEST_F(ClientSharesPatienceTest, NorOneOfTheirConnection) {
  ASSERT_NO_FATAL_FAILURE(JoinSmall("proxy"));
  const Member other = Join("other", 1);
  EXPECT_EQ(other->Take(1), 1);
  const Member large = Join("large", 10, "proxy");
  EXPECT_EQ(large->Take(1), 0);
  // The connection's half of the host's 12.
  EXPECT_EQ(SendSmall(), 6);
  now_ += kUnit;
  // Another connection goes on while that of the large batch has some.
  Return(other);
  EXPECT_EQ(other->Take(1), 1);
  (void)SendSmall();
  EXPECT_EQ(woken_["large"], 1);
}

// Every call gets all its steps, whoever makes room for it.
TEST(ClientSharesThreadsTest, CallsOnManyThreadsComeToTheirEnd) {
  ClientShares shares(4 * kStep, kTimeout);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int call = 0; call < 20; ++call) {
        Mutex mu;
        CondVar changed;
        bool room = false;
        const Member member = shares.Join({.host = t % 2 == 0 ? "even" : "odd",
                                           .connection = std::to_string(t / 4),
                                           .client = std::to_string(t),
                                           .step_bytes = kStep,
                                           .on_room = [&] {
                                             MutexLock lock(mu);
                                             room = true;
                                             changed.NotifyAll();
                                           }});
        for (uint64_t left = 10; left > 0;) {
          const uint64_t taken = member->Take(left);
          if (taken == 0) {
            MutexLock lock(mu);
            while (!room) changed.Wait(lock);
            room = false;
            continue;
          }
          left -= taken;
          const bool slow = left % 3 == 0;
          for (const auto& on_room : member->Waits(slow ? kTimeout : kAtOnce)) {
            on_room();
          }
          member->Sent(slow ? kTimeout : kAtOnce);
          for (const auto& on_room : member->Return(taken, left > 0)) {
            on_room();
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shares.starving(), 0);
}

}  // namespace
}  // namespace millrace::rpc
