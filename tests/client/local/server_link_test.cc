// Both sides of a link in one process, without gRPC: what calls would announce
// is passed on by hand.

#include "client/local/server_link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/byte_budget.h"
#include "common/mutex.h"
#include "common/packet_socket.h"
#include "proto/wire/same_host.h"
#include "server/local/local_server.h"

namespace millrace::local {
namespace {

constexpr uint64_t kBatch = 100'000;
constexpr uint64_t kSlot = 102'400;  // whole pages

// Waits for what another thread does soon.
bool Soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

class ServerLinkTest : public ::testing::Test {
 protected:
  explicit ServerLinkTest(uint64_t budget_bytes = 4 << 20)
      : budget_(budget_bytes) {}

  void SetUp() override { Start({}); }

  void Start(LocalServer::Options options) {
    server_ = nullptr;
    options.budget = &budget_;
    options.batch_budget_bytes = budget_.capacity();
    auto server = LocalServer::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::shared_ptr<ServerLink> Connect() {
    auto link = ServerLink::Connect(server_->offer());
    EXPECT_TRUE(link.ok()) << link.status();
    EXPECT_TRUE(
        Soon([&] { return (*link)->Poll() != ServerLink::State::kGreeting; }));
    EXPECT_EQ((*link)->Poll(), ServerLink::State::kReady) << (*link)->status();
    return *std::move(link);
  }

  std::shared_ptr<batch::PayloadMemory> Call(const ServerLink& link,
                                             uint64_t call) {
    SameHostCall request;
    request.set_link(std::string(link.id()));
    request.set_call(call);
    return server_->BeginCall(request);
  }

  // A batch of bytes `fill`, announced.
  static SharedPayload Make(batch::PayloadMemory& memory, uint8_t fill) {
    uint8_t* data = memory.Take(kBatch);
    EXPECT_NE(data, nullptr);
    std::memset(data, fill, kBatch);
    const auto lent = memory.Lend(data);
    EXPECT_TRUE(lent.has_value());
    SharedPayload shared;
    shared.set_slot(lent->slot);
    shared.set_generation(lent->generation);
    return shared;
  }

  // Somebody else waits for the whole budget; true: it was had, and given back.
  std::shared_ptr<std::atomic<bool>> WantAll() {
    auto granted = std::make_shared<std::atomic<bool>>(false);
    budget_.ReserveAsync(budget_.capacity(),
                         [granted](ByteBudget::Reservation r) {
                           r.Release();
                           *granted = true;
                         });
    return granted;
  }

  ByteBudget budget_;
  std::unique_ptr<LocalServer> server_;
};

TEST_F(ServerLinkTest, ABatchIsReadWhereItWasWritten) {
  const auto link = Connect();
  const auto memory = Call(*link, 1);
  ASSERT_NE(memory, nullptr);
  auto found = link->Find(Make(*memory, 5), kBatch);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->data, std::string(kBatch, 5));
}

TEST_F(ServerLinkTest, ASlotIsNotWrittenUntilItIsLetGoOf) {
  const auto link = Connect();
  const auto memory = Call(*link, 1);
  uint8_t* const first = memory->Take(kBatch);
  std::memset(first, 1, kBatch);
  const auto lent = memory->Lend(first);
  ASSERT_TRUE(lent.has_value());
  SharedPayload shared;
  shared.set_slot(lent->slot);
  shared.set_generation(lent->generation);
  auto found = link->Find(shared, kBatch);
  ASSERT_TRUE(found.ok());
  // All the others that there is room for.
  while (uint8_t* other = memory->Take(kBatch)) {
    ASSERT_NE(other, first);
    std::memset(other, 2, kBatch);
  }
  EXPECT_EQ(found->data, std::string(kBatch, 1));
  found->hold.reset();
  EXPECT_TRUE(Soon([&] { return memory->Take(kBatch) == first; }));
}

TEST_F(ServerLinkTest, SlotsAreCountedInTheBudgetUntilTheLinkEnds) {
  auto link = Connect();
  auto memory = Call(*link, 1);
  auto found = link->Find(Make(*memory, 1), kBatch);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(budget_.used(), kSlot);
  EXPECT_EQ(server_->stats().bytes, kSlot);
  EXPECT_EQ(server_->stats().links, 1);
  EXPECT_EQ(server_->stats().batches_lent, 1);
  // The client's process ends with everything that it holds.
  found->hold.reset();
  link.reset();
  EXPECT_TRUE(Soon([&] { return budget_.used() == 0; }));
  EXPECT_EQ(server_->stats().links, 0);
  // A call that is still under way has its batches sent.
  EXPECT_EQ(memory->Take(kBatch), nullptr);
}

TEST_F(ServerLinkTest, HoldersKeepTheLink) {
  auto link = Connect();
  auto memory = Call(*link, 1);
  auto found = link->Find(Make(*memory, 9), kBatch);
  ASSERT_TRUE(found.ok());
  link.reset();
  EXPECT_EQ(budget_.used(), kSlot);
  EXPECT_EQ(found->data, std::string(kBatch, 9));
  found->hold.reset();
  EXPECT_TRUE(Soon([&] { return budget_.used() == 0; }));
}

TEST_F(ServerLinkTest, WhatIsHeldOutlivesTheServer) {
  const auto link = Connect();
  const auto memory = Call(*link, 1);
  auto found = link->Find(Make(*memory, 4), kBatch);
  ASSERT_TRUE(found.ok());
  server_->Stop();
  EXPECT_EQ(budget_.used(), 0);
  EXPECT_EQ(link->Poll(), ServerLink::State::kEnded);
  EXPECT_EQ(found->data, std::string(kBatch, 4));
  EXPECT_EQ(memory->Take(kBatch), nullptr);
}

TEST_F(ServerLinkTest, AnAnnouncementThatOvertookTheEndIsFound) {
  const auto link = Connect();
  const auto memory = Call(*link, 1);
  const SharedPayload shared = Make(*memory, 6);
  server_->Stop();
  auto found = link->Find(shared, kBatch);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->data, std::string(kBatch, 6));
}

TEST_F(ServerLinkTest, ABatchUnderWayWhenTheLinkEndsCanStillBeSent) {
  auto link = Connect();
  auto memory = Call(*link, 1);
  uint8_t* data = memory->Take(kBatch);
  ASSERT_NE(data, nullptr);
  link.reset();
  EXPECT_TRUE(Soon([&] { return server_->stats().links == 0; }));
  std::memset(data, 1, kBatch);  // still there
  EXPECT_FALSE(memory->Lend(data).has_value());
  EXPECT_EQ(budget_.used(), kSlot);
  memory->Give(data);
  EXPECT_EQ(budget_.used(), 0);
}

TEST_F(ServerLinkTest, ACallThatIsGivenUpKeepsNothing) {
  const auto link = Connect();
  const auto memory = Call(*link, 1);
  auto found = link->Find(Make(*memory, 1), kBatch);
  Make(*memory, 2);  // never seen
  Make(*memory, 3);
  ASSERT_EQ(budget_.used(), 3 * kSlot);
  link->EndCall(1, 1);
  // Both are used again, the one that is held is not.
  const auto other = Call(*link, 2);
  ASSERT_TRUE(Soon([&] {
    uint8_t* data = memory->Take(kBatch);
    const auto lent = memory->Lend(data);
    if (lent.has_value()) {
      memory->TakeBack(*lent);
    } else {
      memory->Give(data);
    }
    return !lent.has_value();
  }));
  Make(*other, 4);
  Make(*other, 5);
  EXPECT_LE(budget_.used(), 4 * kSlot);
  EXPECT_EQ(found->data, std::string(kBatch, 1));
}

TEST_F(ServerLinkTest, ACallThatWasGivenUpBeforeItBeganSharesNothing) {
  const auto link = Connect();
  link->EndCall(7, 0);
  EXPECT_TRUE(Soon([&] { return Call(*link, 7) == nullptr; }));
  EXPECT_NE(Call(*link, 8), nullptr);
}

TEST_F(ServerLinkTest, ABatchThatTheClientWasNotToldOfIsTakenBack) {
  const auto link = Connect();
  const auto memory = Call(*link, 1);
  uint8_t* data = memory->Take(kBatch);
  const auto lent = memory->Lend(data);
  ASSERT_TRUE(lent.has_value());
  memory->TakeBack(*lent);
  EXPECT_EQ(memory->Take(kBatch), data);
  memory->Give(data);
}

TEST_F(ServerLinkTest, HalfOfTheBudgetStaysForOthers) {
  const auto link = Connect();
  const auto memory = Call(*link, 1);
  int taken = 0;
  while (memory->Take(kBatch) != nullptr) ++taken;
  EXPECT_EQ(taken, (2 << 20) / kSlot);
  ByteBudget::Reservation rest;
  EXPECT_TRUE(budget_.TryReserve(2 << 20, &rest));
}

TEST_F(ServerLinkTest, NothingIsSharedWhileOthersWaitForMemory) {
  const auto link = Connect();
  const auto memory = Call(*link, 1);
  ByteBudget::Reservation held;
  ASSERT_TRUE(budget_.TryReserve(3 << 20, &held));
  bool granted = false;
  const auto ticket = budget_.ReserveAsync(
      2 << 20, [&](ByteBudget::Reservation) { granted = true; });
  EXPECT_EQ(memory->Take(kBatch), nullptr);
  held.Release();
  EXPECT_TRUE(granted || budget_.CancelWait(ticket));
}

TEST_F(ServerLinkTest, IdleSlotsMakeRoomForThoseWhoWait) {
  const auto link = Connect();
  const auto memory = Call(*link, 1);
  std::vector<ServerLink::Found> found;
  for (int i = 0; i < 10; ++i) {
    found.push_back(*link->Find(Make(*memory, 1), kBatch));
  }
  found.clear();
  const auto granted = WantAll();
  // The client hears that slots go and says that they are gone.
  EXPECT_TRUE(Soon([&] {
    EXPECT_EQ(link->Poll(), ServerLink::State::kReady);
    return granted->load();
  }));
  // The link goes on.
  EXPECT_TRUE(link->Find(Make(*memory, 2), kBatch).ok());
}

TEST_F(ServerLinkTest, AClientThatKeepsWhatOthersWaitForLosesItsLink) {
  Start({.send_timeout = absl::Milliseconds(300)});
  const auto link = Connect();
  const auto memory = Call(*link, 1);
  auto found = link->Find(Make(*memory, 8), kBatch);
  ASSERT_TRUE(found.ok());
  // Nobody waits: it may keep the batch for as long as it likes. Then somebody
  // does.
  const auto granted = WantAll();
  EXPECT_TRUE(Soon([&] { return granted->load(); }));
  EXPECT_EQ(link->Poll(), ServerLink::State::kEnded);
  EXPECT_EQ(found->data, std::string(kBatch, 8));
}

// Ending calls that never were gives nothing back.
TEST_F(ServerLinkTest, InventedEndsOfCallsKeepNothing) {
  Start({.send_timeout = absl::Milliseconds(300)});
  const auto link = Connect();
  const auto memory = Call(*link, 1);
  auto found = link->Find(Make(*memory, 8), kBatch);
  ASSERT_TRUE(found.ok());
  const auto granted = WantAll();
  uint64_t call = 100;
  EXPECT_TRUE(Soon([&] {
    if (link->Poll() == ServerLink::State::kReady) link->EndCall(++call, 0);
    return granted->load();
  }));
}

TEST_F(ServerLinkTest, TheWrongServerRefuses) {
  SameHostOffer offer = server_->offer();
  offer.set_nonce(std::string(16, 'x'));
  auto link = ServerLink::Connect(offer);
  ASSERT_TRUE(link.ok());
  EXPECT_TRUE(
      Soon([&] { return (*link)->Poll() == ServerLink::State::kEnded; }));
  EXPECT_TRUE(absl::IsUnavailable((*link)->status())) << (*link)->status();
}

TEST_F(ServerLinkTest, NoServerUnderThatName) {
  SameHostOffer offer = server_->offer();
  server_ = nullptr;
  EXPECT_TRUE(absl::IsUnavailable(ServerLink::Connect(offer).status()));
}

TEST_F(ServerLinkTest, ThereMayBeTooMany) {
  Start({.max_links = 1});
  const auto first = Connect();
  auto second = ServerLink::Connect(server_->offer());
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(
      Soon([&] { return (*second)->Poll() == ServerLink::State::kEnded; }));
  EXPECT_TRUE(absl::IsResourceExhausted((*second)->status()));
}

TEST_F(ServerLinkTest, ASocketWithAPathGoesWithTheServer) {
  std::string folder = "/tmp/millrace.XXXXXX";  // Bazel's are too long
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/millrace.sock";
  Start({.socket = path});
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  EXPECT_NE(Connect(), nullptr);
  server_->Stop();
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_EQ(rmdir(folder.c_str()), 0);
}

TEST_F(ServerLinkTest, TheSocketOfALaterServerStays) {
  std::string folder = "/tmp/millrace.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/millrace.sock";
  Start({.socket = path});
  const auto first = std::move(server_);
  ASSERT_EQ(unlink(path.c_str()), 0);  // somebody tidies up
  Start({.socket = path});
  first->Stop();
  EXPECT_NE(Connect(), nullptr);
  server_->Stop();
  EXPECT_EQ(rmdir(folder.c_str()), 0);
}

// Connections that say nothing take descriptors, and only so many.
TEST_F(ServerLinkTest, StrangersThatSayNothingAreBounded) {
  Start({.max_links = 2});
  constexpr size_t kMax = 2 + 64;
  std::vector<UniqueFd> silent;
  size_t ended = 0;
  EXPECT_TRUE(Soon([&] {
    auto socket = ConnectForPackets(server_->offer().socket());
    if (socket.ok()) silent.push_back(*std::move(socket));
    ended = 0;
    for (const UniqueFd& fd : silent) {
      char byte;
      size_t bytes = 0;
      UniqueFd attached;
      if (ReceivePacket(fd.get(), &byte, 1, &bytes, &attached) ==
          Received::kEnd) {
        ++ended;
      }
    }
    return ended > 0 || silent.size() > 10 * kMax;
  }));
  EXPECT_GT(ended, 0);
  // Those that are there in time are heard.
  silent.clear();
  EXPECT_TRUE(Soon([&] {
    auto link = ServerLink::Connect(server_->offer());
    if (!link.ok()) return false;
    EXPECT_TRUE(
        Soon([&] { return (*link)->Poll() != ServerLink::State::kGreeting; }));
    return (*link)->Poll() == ServerLink::State::kReady;
  }));
}

// The server waits until there are descriptors again, and says so.
TEST_F(ServerLinkTest, AServerWithoutDescriptorsServesLater) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const UniqueFd log(pipe_fds[0]);
  const UniqueFd log_in(pipe_fds[1]);
  const UniqueFd standard_error(dup(STDERR_FILENO));
  ASSERT_TRUE(standard_error.ok());
  dup2(log_in.get(), STDERR_FILENO);
  Start({});
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // The client gets the last descriptor.
  UniqueFd next(dup(0));
  rlimit limit = before;
  limit.rlim_cur = next.get() + 1;
  next.Reset();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  auto link = ServerLink::Connect(server_->offer());
  std::string text;
  pollfd polled = {log.get(), POLLIN, 0};
  while (text.find('\n') == std::string::npos &&
         poll(&polled, 1, 30'000) == 1) {
    char bytes[256];
    text.append(bytes, read(log.get(), bytes, sizeof(bytes)));
  }
  dup2(standard_error.get(), STDERR_FILENO);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(text.find("cannot connect for shared memory"), std::string::npos)
      << text;
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_TRUE(
      Soon([&] { return (*link)->Poll() == ServerLink::State::kReady; }));
}

TEST_F(ServerLinkTest, AnUnknownLinkSharesNothing) {
  SameHostCall request;
  EXPECT_EQ(server_->BeginCall(request), nullptr);
  request.set_link(std::string(16, 'x'));
  EXPECT_EQ(server_->BeginCall(request), nullptr);
}

// A client that breaks the rules loses its link, and no more than that.
class RuleTest : public ServerLinkTest {
 protected:
  // Says hello by hand, then `message`; true when the server ends the link.
  bool EndsLink(const std::string& message) {
    auto socket = ConnectForPackets(server_->offer().socket());
    EXPECT_TRUE(socket.ok());
    wire::SameHostMessage hello{.kind = wire::SameHostKind::kHello,
                                .number = wire::kSameHostVersion};
    std::memcpy(hello.id.data(), server_->offer().nonce().data(), 16);
    EXPECT_TRUE(SendPacket(socket->get(), wire::EncodeSameHost(hello)).ok());
    EXPECT_TRUE(SendPacket(socket->get(), message).ok());
    return Soon([&] {
      char buffer[64];
      size_t bytes = 0;
      UniqueFd attached;
      return ReceivePacket(socket->get(), buffer, sizeof(buffer), &bytes,
                           &attached) == Received::kEnd;
    });
  }
};

TEST_F(RuleTest, WrongMessagesEndTheLink) {
  const auto good = Connect();
  EXPECT_TRUE(EndsLink(wire::EncodeSameHost(
      {.kind = wire::SameHostKind::kRelease, .slot = 1, .number = 1})));
  EXPECT_TRUE(EndsLink(
      wire::EncodeSameHost({.kind = wire::SameHostKind::kGone, .slot = 1})));
  EXPECT_TRUE(
      EndsLink(wire::EncodeSameHost({.kind = wire::SameHostKind::kWelcome})));
  EXPECT_TRUE(
      EndsLink(wire::EncodeSameHost({.kind = wire::SameHostKind::kHello})));
  EXPECT_TRUE(EndsLink("short"));
  EXPECT_TRUE(EndsLink(std::string(1000, 'x')));
  EXPECT_EQ(good->Poll(), ServerLink::State::kReady);
  EXPECT_TRUE(good->Find(Make(*Call(*good, 1), 1), kBatch).ok());
}

TEST_F(RuleTest, AnotherVersionIsRefused) {
  auto socket = ConnectForPackets(server_->offer().socket());
  ASSERT_TRUE(socket.ok());
  ASSERT_TRUE(
      SendPacket(socket->get(),
                 wire::EncodeSameHost({.kind = wire::SameHostKind::kHello,
                                       .number = wire::kSameHostVersion + 1}))
          .ok());
  char buffer[64];
  size_t bytes = 0;
  UniqueFd attached;
  ASSERT_TRUE(Soon([&] {
    return ReceivePacket(socket->get(), buffer, sizeof(buffer), &bytes,
                         &attached) == Received::kPacket;
  }));
  wire::SameHostMessage answer;
  ASSERT_TRUE(wire::DecodeSameHost({buffer, bytes}, &answer));
  EXPECT_EQ(answer.kind, wire::SameHostKind::kRefused);
}

// Workers fill, the transport's thread finds, others let go: the bytes of each
// batch are those that were written for it, and all memory comes back.
TEST_F(ServerLinkTest, ManyThreads) {
  auto link = Connect();
  constexpr int kThreads = 3;
  constexpr int kBatches = 200;
  Mutex mu;
  CondVar changed;
  std::deque<std::pair<SharedPayload, uint8_t>> announced;
  int done = 0;
  std::vector<std::thread> workers;
  for (int t = 0; t < kThreads; ++t) {
    workers.emplace_back([&, t] {
      const auto memory = Call(*link, t + 1);
      for (int i = 0; i < kBatches; ++i) {
        uint8_t* data = memory->Take(kBatch);
        const uint8_t fill = static_cast<uint8_t>(t * 80 + i);
        if (data == nullptr) {  // all are lent
          std::this_thread::yield();
          continue;
        }
        std::memset(data, fill, kBatch);
        MutexLock lock(mu);
        const auto lent = memory->Lend(data);
        SharedPayload shared;
        shared.set_slot(lent->slot);
        shared.set_generation(lent->generation);
        announced.emplace_back(shared, fill);
        changed.NotifyAll();
      }
      MutexLock lock(mu);
      ++done;
      changed.NotifyAll();
    });
  }
  Mutex held_mu;
  std::deque<std::pair<ServerLink::Found, uint8_t>> held;
  bool over = false;
  CondVar more;
  std::thread consumer([&] {
    while (true) {
      std::pair<ServerLink::Found, uint8_t> next;
      {
        MutexLock lock(held_mu);
        while (held.empty() && !over) more.Wait(lock);
        if (held.empty()) return;
        next = std::move(held.front());
        held.pop_front();
      }
      EXPECT_EQ(next.first.data.front(), static_cast<char>(next.second));
      EXPECT_EQ(next.first.data.back(), static_cast<char>(next.second));
    }
  });
  int seen = 0;
  while (true) {
    std::pair<SharedPayload, uint8_t> next;
    {
      MutexLock lock(mu);
      while (announced.empty() && done < kThreads) changed.Wait(lock);
      if (announced.empty()) break;
      next = announced.front();
      announced.pop_front();
    }
    auto found = link->Find(next.first, kBatch);
    ASSERT_TRUE(found.ok()) << found.status();
    ++seen;
    MutexLock lock(held_mu);
    held.emplace_back(*std::move(found), next.second);
    more.NotifyAll();
  }
  {
    MutexLock lock(held_mu);
    over = true;
    more.NotifyAll();
  }
  for (std::thread& worker : workers) worker.join();
  consumer.join();
  EXPECT_GT(seen, 0);
  link.reset();
  EXPECT_TRUE(Soon([&] { return budget_.used() == 0; }));
}

}  // namespace
}  // namespace millrace::local
