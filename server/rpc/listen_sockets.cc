#include "server/rpc/listen_sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::rpc {
namespace {

// A connection ends when sent bytes are not acknowledged for this time; the
// same as the keepalive timeout of rpc_server.cc.
constexpr int kUserTimeoutMs = 5000;

constexpr int kTriesOfFreePort = 16;

void SetPort(sockaddr_storage* address, int port) {
  if (address->ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  } else if (address->ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  }
}

int PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

bool IsWildcard(const addrinfo& info) {
  if (info.ai_family == AF_INET6) {
    const auto& v6 = *reinterpret_cast<const sockaddr_in6*>(info.ai_addr);
    return IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr) != 0;
  }
  const auto& v4 = *reinterpret_cast<const sockaddr_in*>(info.ai_addr);
  return info.ai_family == AF_INET && v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

void SetOption(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof(value));
}

// Returns a closed descriptor on an error; errno has the reason.
UniqueFd Listen(int family, const sockaddr_storage& address, socklen_t bytes,
                bool dual_stack) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return fd;
  // Ignores connections of a server that has just ended. SO_REUSEPORT is never
  // set: two servers on one port would share its connections silently.
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  if (family == AF_INET6) {
    SetOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, dual_stack ? 0 : 1);
  }
  // If another socket with SO_REUSEADDR listens, bind() succeeds and listen()
  // fails.
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    const int reason = errno;
    fd.Reset();
    errno = reason;
  }
  return fd;
}

absl::Status Refusal(const ListenAddress& address, int reason) {
  const std::string text = absl::StrCat("cannot listen on ", address.Text(),
                                        ": ", std::strerror(reason));
  switch (reason) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(absl::StrCat(
          text, "; another program uses port ", address.port,
          ": choose another port with --listen (port 0: any free port)"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          absl::StrCat(text, "; ports below 1024 need privileges"));
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, "; raise the limit of open files (ulimit -n)"));
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(text, "; name an address of this machine"));
  }
}

// Sets the addresses at which this machine reaches the socket.
void SetOwnAddress(bool dual_stack, ListenSockets* sockets) {
  sockaddr_storage& own = sockets->own_address;
  socklen_t bytes = sizeof(own);
  if (getsockname(sockets->fds[0].get(), reinterpret_cast<sockaddr*>(&own),
                  &bytes) != 0) {
    return;
  }
  if (own.ss_family == AF_INET6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(own);
    if (IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)) {
      if (dual_stack) {
        // A machine may have a loopback without an IPv6 address, but not one
        // without IPv4.
        sockaddr_in v4 = {};
        v4.sin_family = AF_INET;
        v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        own = {};
        std::memcpy(&own, &v4, sizeof(v4));
        bytes = sizeof(v4);
      } else {
        v6.sin6_addr = in6addr_loopback;
      }
    }
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(own);
    if (v4.sin_addr.s_addr == htonl(INADDR_ANY)) {
      v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
  }
  SetPort(&own, sockets->port);
  sockets->own_address_bytes = bytes;
}

// Adds a socket and takes over its port. Returns 0 or errno.
int Add(int family, sockaddr_storage address, socklen_t bytes, bool dual_stack,
        ListenSockets* sockets) {
  SetPort(&address, sockets->port);
  UniqueFd fd = Listen(family, address, bytes, dual_stack);
  if (!fd.ok()) return errno;
  bytes = sizeof(address);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &bytes) !=
      0) {
    return errno;
  }
  sockets->port = PortOf(address);
  sockets->fds.push_back(std::move(fd));
  if (sockets->fds.size() == 1) SetOwnAddress(dual_stack, sockets);
  return 0;
}

// Listens at [::] for IPv4 and IPv6, or at 0.0.0.0 on a system without IPv6.
absl::StatusOr<ListenSockets> ListenOnWildcard(const ListenAddress& address) {
  ListenSockets sockets;
  sockets.port = address.port;
  sockaddr_storage any = {};
  any.ss_family = AF_INET6;  // in6addr_any is all zeros
  int reason = Add(AF_INET6, any, sizeof(sockaddr_in6), true, &sockets);
  if (reason == 0) return sockets;
  if (reason != EADDRINUSE) {
    any.ss_family = AF_INET;
    reason = Add(AF_INET, any, sizeof(sockaddr_in), false, &sockets);
    if (reason == 0) return sockets;
  }
  return Refusal(address, reason);
}

absl::StatusOr<ListenSockets> TryAddresses(const ListenAddress& address,
                                           const addrinfo* found) {
  // The name "localhost" often has an IPv6 address on systems without IPv6.
  ListenSockets sockets;
  sockets.port = address.port;
  absl::Status refused = absl::InvalidArgumentError(absl::StrCat(
      "cannot listen on ", address.Text(), ": the name has no address"));
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    sockaddr_storage storage = {};
    std::memcpy(&storage, at->ai_addr, at->ai_addrlen);
    const int reason =
        Add(at->ai_family, storage, at->ai_addrlen, false, &sockets);
    if (reason == 0 || reason == EAFNOSUPPORT) continue;
    refused = Refusal(address, reason);
    if (reason == EADDRINUSE) return refused;
  }
  if (sockets.fds.empty()) return refused;
  return sockets;
}

}  // namespace

absl::StatusOr<ListenSockets> ListenOn(const ListenAddress& address) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", address.Text(), ": ",
                     gai_strerror(error), "; name an address of this machine"));
  }
  const absl::Cleanup free = [&] { freeaddrinfo(found); };
  if (IsWildcard(*found)) return ListenOnWildcard(address);
  return ListenOnAddresses(address, found);
}

absl::StatusOr<ListenSockets> ListenOnAddresses(const ListenAddress& address,
                                                const addrinfo* found) {
  // A port that is free on one address of a name may be used on another one.
  const int tries = address.port == 0 ? kTriesOfFreePort : 1;
  absl::StatusOr<ListenSockets> sockets;
  for (int i = 0; i < tries; ++i) {
    sockets = TryAddresses(address, found);
    if (!absl::IsAlreadyExists(sockets.status())) break;
  }
  return sockets;
}

}  // namespace millrace::rpc
