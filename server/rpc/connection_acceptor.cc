#include "server/rpc/connection_acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/count_text.h"
#include "common/logging.h"

namespace millrace::rpc {
namespace {

// Max connections accepted from one listening socket before the next one's
// turn.
constexpr int kAcceptsPerTurn = 64;
// Pause when the system has no memory or no descriptors left.
constexpr int kShortageMs = 100;
constexpr absl::Duration kLogInterval = absl::Seconds(1);

UniqueFd OpenSpare() {
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

struct PeerName {
  std::string host;
  int port = 0;
  std::string Text() const { return absl::StrCat(host, ":", port); }
};

// An IPv4 address that arrives over an IPv6 socket is returned as an IPv4
// address.
PeerName NameOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "unknown";
  PeerName name;
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
    } else {
      inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    }
    name.port = ntohs(v6.sin6_port);
  } else if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    name.port = ntohs(v4.sin_port);
  }
  name.host = text;
  return name;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Start(
    ListenSockets sockets, Options options) {
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot accept connections: ", std::strerror(errno),
                     "; raise the limit of open files (ulimit -n)"));
  }
  return std::unique_ptr<ConnectionAcceptor>(new ConnectionAcceptor(
      std::move(sockets), std::move(options), std::move(wake)));
}

ConnectionAcceptor::ConnectionAcceptor(ListenSockets sockets, Options options,
                                       UniqueFd wake)
    : options_(std::move(options)),
      sockets_(std::move(sockets)),
      wake_(std::move(wake)),
      spare_(OpenSpare()),
      open_(options_.limits, &InodeOf),
      thread_("mr-accept", [this] { Run(); }) {}

ConnectionAcceptor::~ConnectionAcceptor() { Stop(); }

void ConnectionAcceptor::LetIn(const sockaddr_storage& address) {
  MutexLock lock(mu_);
  let_in_ = NameOf(address).Text();
}

// Any thread. shutdown() and not close(): the descriptors belong to the owner
// that `take` gave them to, which closes them when it sees the end.
uint64_t ConnectionAcceptor::Close(
    const std::unordered_set<std::string>& peers) {
  // Connections are added only under the lock. If the system reuses a found
  // descriptor at this moment, the new descriptor is not that of an accepted
  // connection.
  MutexLock lock(mu_);
  const std::vector<int> found = open_.Find(peers);
  for (const int fd : found) shutdown(fd, SHUT_RDWR);
  return found.size();
}

// The thread ends before the sockets are closed: closing a descriptor that
// another thread polls would let a new file with the same number be polled.
void ConnectionAcceptor::Stop() {
  const uint64_t one = 1;
  // The write also succeeds if the eventfd was not read since the last write.
  MR_CHECK(write(wake_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.Join();
  sockets_.fds.clear();
}

// The acceptor's thread. sockets_ and spare_ belong to it until it has ended;
// open_ and let_in_ are shared with callers and guarded by mu_.
void ConnectionAcceptor::Run() {
  std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
  for (const UniqueFd& fd : sockets_.fds) {
    polled.push_back({fd.get(), POLLIN, 0});
  }
  while (true) {
    poll(polled.data(), polled.size(), -1);
    // Stop(). The eventfd is never read, so it stays ready.
    if (polled[0].revents != 0) return;
    bool shortage = false;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) shortage |= !AcceptFrom(polled[i].fd);
    }
    // The sockets stay ready, so the waiting connections are not lost.
    if (shortage) poll(polled.data(), 1, kShortageMs);
  }
}

bool ConnectionAcceptor::AcceptFrom(int listener) {
  if (!spare_.ok()) spare_ = OpenSpare();
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    sockaddr_storage from = {};
    socklen_t bytes = sizeof(from);
    UniqueFd connection(accept4(listener, reinterpret_cast<sockaddr*>(&from),
                                &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.ok()) {
      Take(listener, std::move(connection), from);
      continue;
    }
    switch (const int reason = errno) {
      case EAGAIN:
        return true;
      case EMFILE:
      case ENFILE:
        if (!RefuseWithSpare(listener, reason)) return false;
        break;
      case EINTR:
      case ECONNABORTED:
        break;
      default:  // for example: no memory
        MR_LOG_EVERY(WARNING, kLogInterval)
            << "cannot accept connections: " << std::strerror(reason);
        return false;
    }
  }
  return true;
}

bool ConnectionAcceptor::RefuseWithSpare(int listener, int reason) {
  PeerName peer;
  bool refused = false;
  if (spare_.ok()) {
    spare_.Reset();
    sockaddr_storage from = {};
    socklen_t bytes = sizeof(from);
    const UniqueFd connection(accept4(
        listener, reinterpret_cast<sockaddr*>(&from), &bytes, SOCK_CLOEXEC));
    refused = connection.ok();
    if (refused) {
      peer = NameOf(from);
      // Counted before the connection is closed, so that an observer of the
      // close finds the count.
      options_.refused->fetch_add(1);
    }
  }
  spare_ = OpenSpare();  // another thread may have used the descriptor
  const ConnectionLimits& limits = options_.limits;
  MR_LOG_EVERY(WARNING, kLogInterval)
      << "connection " << (refused ? "of " + peer.Text() + " " : "")
      << "refused: " << std::strerror(reason)
      << "; raise the limit of open files (ulimit -n"
      << (limits.open_files == 0
              ? absl::StrCat("), or lower --max_connections (", limits.total,
                             " now)")
              : absl::StrCat(" is ", limits.open_files, ")"))
      << "; " << CountText(options_.refused->load(), "connection")
      << " refused since the start";
  return refused;
}

void ConnectionAcceptor::Take(int listener, UniqueFd connection,
                              const sockaddr_storage& from) {
  const PeerName peer = NameOf(from);
  std::string why;
  // Called without the lock: it is the caller's code.
  if (options_.refusal != nullptr) why = options_.refusal(connection.get());
  {
    MutexLock lock(mu_);
    if (!let_in_.empty() && let_in_ == peer.Text()) {
      let_in_.clear();
      why.clear();
    } else if (why.empty()) {
      why = open_.Refusal(peer.host, std::chrono::steady_clock::now());
    }
    // Added before `take` gets the connection, so that Close() finds every
    // connection that was handed over.
    if (why.empty()) open_.Add(connection.get(), peer.host, peer.port);
  }
  if (!why.empty()) {
    options_.refused->fetch_add(1);
    MR_LOG_EVERY(WARNING, kLogInterval)
        << "connection of " << peer.Text() << " refused: " << why << "; "
        << CountText(options_.refused->load(), "connection")
        << " refused since the start";
    return;  // closed
  }
  options_.take(listener, std::move(connection));
}

}  // namespace millrace::rpc
