#include "server/local/local_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/packet_socket.h"
#include "common/status_macros.h"

namespace millrace::local {
namespace {

// Interval in which idle slots are dropped and clients that hold their slots
// too long are found: short compared with kKeepIdle and send_timeout, long
// enough to cost nothing. A choice.
constexpr int kTickMs = 250;
// Time for a client to send its hello. A choice.
constexpr absl::Duration kGreetingTime = absl::Seconds(5);
// Max messages read from one client before the next client's turn. The next
// poll() finds the remaining messages. A choice.
constexpr int kMessagesAtOnce = 64;
// Max connections that are not links yet, in addition to the max number of
// links: a program that may connect must not use all descriptors of the
// process. A choice.
constexpr size_t kMaxGreeting = 64;
// Max connections of other users, which are refused after their hello. They are
// counted separately, so that they take no other client's place. A choice.
constexpr size_t kMaxOtherUsers = 8;

SteadyTime Now() { return std::chrono::steady_clock::now(); }

absl::StatusOr<wire::SameHostId> RandomId() {
  wire::SameHostId id;
  if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    return absl::InternalError(absl::StrCat(
        "cannot get random bytes from the system: ", strerror(errno)));
  }
  return id;
}

absl::string_view Bytes(const wire::SameHostId& id) {
  return {id.data(), id.size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(
    const Options& options) {
  MR_CHECK(options.budget != nullptr);
  MR_ASSIGN_OR_RETURN(const wire::SameHostId name, RandomId());
  MR_ASSIGN_OR_RETURN(const wire::SameHostId nonce, RandomId());
  SameHostOffer offer;
  offer.set_socket(
      options.socket.empty()
          ? absl::StrCat("@millrace-", absl::BytesToHexString(Bytes(name)))
          : options.socket);
  offer.set_nonce(nonce.data(), nonce.size());
  MR_ASSIGN_OR_RETURN(UniqueFd listener, ListenForPackets(offer.socket()));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.ok()) {
    return absl::InternalError(absl::StrCat("eventfd: ", strerror(errno)));
  }
  // Not make_unique, because the constructor is private. The thread starts
  // last, when the object is complete.
  std::unique_ptr<LocalServer> server(new LocalServer(
      options, std::move(offer), std::move(listener), std::move(wake)));
  server->thread_ =
      NamedThread("mr-same-host", [s = server.get()] { s->Loop(); });
  return server;
}

LocalServer::LocalServer(const Options& options, SameHostOffer offer,
                         UniqueFd listener, UniqueFd wake)
    : options_(options),
      offer_(std::move(offer)),
      check_user_(offer_.socket()[0] == '@'),
      listener_(std::move(listener)),
      socket_file_(FindSocketFile(offer_.socket())),
      wake_(std::move(wake)),
      limits_(std::make_shared<SharedMemoryLimits>(
          options.budget, options.batch_budget_bytes)) {}

LocalServer::~LocalServer() { Stop(); }

void LocalServer::Stop() {
  {
    MutexLock lock(mu_);
    if (stopping_) return;
    stopping_ = true;
  }
  const uint64_t one = 1;
  // stopping_ was set before, so a woken thread sees it. The eventfd is never
  // read, so poll() returns at once from now on.
  static_cast<void>(!write(wake_.get(), &one, sizeof(one)));
  thread_.Join();
  if (socket_file_.has_value()) {
    RemoveSocketFile(offer_.socket(), *socket_file_);
  }
}

std::shared_ptr<batch::PayloadMemory> LocalServer::BeginCall(
    const SameHostCall& call) {
  wire::SameHostId id;
  if (call.link().size() != id.size()) return nullptr;
  std::memcpy(id.data(), call.link().data(), id.size());
  std::shared_ptr<ClientLink> link;
  {
    MutexLock lock(mu_);
    const auto it = links_.find(id);
    if (it == links_.end()) return nullptr;
    link = it->second;
  }
  // Without the lock. The result is null if the link has ended in the meantime.
  return link->BeginCall(call.call());
}

LocalServer::Stats LocalServer::stats() const {
  return {limits_->links().load(), limits_->bytes(),
          limits_->batches_lent().load()};
}

void LocalServer::Loop() {
  // polled[0] wakes the thread, polled[1] is the listener (-1: ignored by
  // poll()), and polled[i + 2] belongs to clients_[i]. Clients are erased and
  // added only after the iteration over polled.
  std::vector<pollfd> polled;
  SteadyTime next_tick = Now();
  while (true) {
    polled.clear();
    polled.push_back({wake_.get(), POLLIN, 0});
    const bool accepts = Now() >= accept_from_;
    polled.push_back({accepts ? listener_.get() : -1, POLLIN, 0});
    for (const Client& client : clients_) {
      polled.push_back({client.fd(), POLLIN, 0});
    }
    poll(polled.data(), polled.size(),
         clients_.empty() && accepts ? -1 : kTickMs);
    {
      MutexLock lock(mu_);
      if (stopping_) break;
    }
    for (size_t i = 2; i < polled.size(); ++i) {
      Client& client = clients_[i - 2];
      if (polled[i].revents == 0 || Read(client)) continue;
      if (client.link != nullptr) EndLink(client.link);
      // Emptied and not erased, so that the indices stay valid during the
      // iteration.
      client = {};
    }
    if (Now() >= next_tick) {
      next_tick = Now() + std::chrono::milliseconds(kTickMs);
      for (Client& client : clients_) {
        if (client.link == nullptr) {
          if (Now() - client.since > absl::ToChronoNanoseconds(kGreetingTime)) {
            client = {};
          }
          continue;
        }
        const absl::Status status = client.link->Tick(options_.send_timeout);
        if (status.ok()) continue;
        MR_LOG_EVERY(WARNING, absl::Seconds(1))
            << "shared memory of a client on this machine ended: "
            << status.message();
        EndLink(client.link);
        client = {};
      }
    }
    std::erase_if(clients_, [](const Client& c) { return c.fd() < 0; });
    if (polled[1].revents != 0) Accept();
  }
  for (Client& client : clients_) {
    if (client.link != nullptr) EndLink(client.link);
  }
  clients_.clear();
}

void LocalServer::Accept() {
  absl::StatusOr<UniqueFd> socket = AcceptPackets(listener_.get());
  // The connection ended before it was accepted.
  if (absl::IsUnavailable(socket.status())) return;
  if (!socket.ok()) {
    // The connection still waits, so poll() would return at once, again and
    // again. The listener is left out for a tick.
    accept_from_ = Now() + std::chrono::milliseconds(kTickMs);
    MR_LOG_EVERY(WARNING, absl::Seconds(30))
        << "clients on this machine cannot connect for shared memory: "
        << socket.status().message();
    return;
  }
  const bool other_user = check_user_ && IsOtherUser(socket->get());
  const size_t alike = std::count_if(
      clients_.begin(), clients_.end(),
      [&](const Client& c) { return c.other_user == other_user; });
  if (alike >=
      (other_user ? kMaxOtherUsers : options_.max_links + kMaxGreeting)) {
    // The socket's destructor closes the connection.
    return;
  }
  Client& client = clients_.emplace_back();
  client.socket = *std::move(socket);
  client.since = Now();
  client.other_user = other_user;
}

bool LocalServer::IsOtherUser(int socket) const {
  const absl::StatusOr<uid_t> user = PeerUser(socket);
  return !user.ok() || (*user != geteuid() && *user != 0);
}

bool LocalServer::Read(Client& client) {
  // One byte more than a message, so that a longer packet is recognised and
  // refused.
  char packet[wire::kSameHostMessageBytes + 1];
  size_t bytes = 0;
  // Descriptors sent by the client are closed, because none is expected.
  UniqueFd attached;
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    switch (
        ReceivePacket(client.fd(), packet, sizeof(packet), &bytes, &attached)) {
      case Received::kNothing:
        return true;
      case Received::kEnd:
        return false;
      case Received::kPacket:
        break;
    }
    wire::SameHostMessage message;
    absl::Status status;
    if (!wire::DecodeSameHost({packet, bytes}, &message)) {
      status = absl::InvalidArgumentError(
          absl::StrCat("the client sent a message of ", bytes, " bytes"));
    } else if (client.link == nullptr) {
      if (!Greet(client, message)) return false;
    } else {
      status = client.link->OnMessage(message);
    }
    if (!status.ok()) {
      MR_LOG_EVERY(WARNING, absl::Seconds(1))
          << "a client on this machine violates the protocol of shared memory "
             "and receives its batches over the network instead: "
          << status.message();
      return false;
    }
  }
  return true;
}

bool LocalServer::Refuse(const Client& client, wire::SameHostRefusal why) {
  SendPacket(client.fd(),
             wire::EncodeSameHost({.kind = wire::SameHostKind::kRefused,
                                   .number = static_cast<uint64_t>(why)}))
      .IgnoreError();
  return false;
}

bool LocalServer::Greet(Client& client, const wire::SameHostMessage& hello) {
  if (hello.kind != wire::SameHostKind::kHello) return false;
  if (hello.number != wire::kSameHostVersion) {
    return Refuse(client, wire::SameHostRefusal::kVersion);
  }
  if (Bytes(hello.id) != offer_.nonce()) {
    return Refuse(client, wire::SameHostRefusal::kOtherServer);
  }
  if (client.other_user)
    return Refuse(client, wire::SameHostRefusal::kOtherUser);
  // The id must not be guessable: a call that contains it may use the link.
  const absl::StatusOr<wire::SameHostId> id = RandomId();
  if (!id.ok() || limits_->links().load() >= options_.max_links) {
    return Refuse(client, wire::SameHostRefusal::kTooMany);
  }
  auto link =
      std::make_shared<ClientLink>(std::move(client.socket), *id, limits_);
  client.link = link;
  {
    MutexLock lock(mu_);
    links_[*id] = std::move(link);
  }
  // Sent after the table contains the link, because the client's next call may
  // arrive as soon as the client has read this message.
  return SendPacket(client.fd(),
                    wire::EncodeSameHost({.kind = wire::SameHostKind::kWelcome,
                                          .number = wire::kSameHostVersion,
                                          .id = *id}))
      .ok();
}

void LocalServer::EndLink(const std::shared_ptr<ClientLink>& link) {
  {
    MutexLock lock(mu_);
    links_.erase(link->id());
  }
  link->End();
}

}  // namespace millrace::local
