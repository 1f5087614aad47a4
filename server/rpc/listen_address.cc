#include "server/rpc/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace millrace {

std::string ListenAddress::Text() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return ipv6 ? absl::StrCat("[", host, "]:", port)
              : absl::StrCat(host, ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on `", text, "`: ", why,
                     "; write HOST:PORT, for example 0.0.0.0:7001"));
  };
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return bad("it has no port");
  absl::string_view host = text.substr(0, colon);
  ListenAddress address;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &address.port) ||
      address.port < 0 || address.port > 65535) {
    return bad("the port is no number from 0 to 65535");
  }
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != absl::string_view::npos) {
    return bad("an IPv6 address stands in [ ]");
  }
  if (host.empty()) return bad("it has no host");
  address.host = std::string(host);
  return address;
}

absl::Status CheckPortIsFree(const ListenAddress& address) {
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
  return CheckAddressesAreFree(address, found);
}

absl::Status CheckAddressesAreFree(const ListenAddress& address,
                                   const addrinfo* found) {
  // As gRPC does, which listens on those addresses of a name that it can have:
  // "localhost" often still has an IPv6 one where IPv6 is off.
  bool one_is_free = false;
  absl::Status status;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd =
        socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (fd < 0) continue;  // a kind of address that this kernel lacks
    const absl::Cleanup close_it = [&] { close(fd); };
    // As gRPC does: connections of a server that just ended do not count.
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // Only listen() fails when another socket with SO_REUSEADDR listens.
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 1) == 0) {
      one_is_free = true;
      continue;
    }
    const int reason = errno;
    const std::string text = absl::StrCat("cannot listen on ", address.Text(),
                                          ": ", std::strerror(reason));
    if (reason == EADDRINUSE) {
      return absl::AlreadyExistsError(absl::StrCat(
          text, "; another program has port ", address.port,
          ", choose another one with --listen (port 0 takes a free one)"));
    }
    status = reason == EACCES || reason == EPERM
                 ? absl::PermissionDeniedError(
                       absl::StrCat(text, "; ports below 1024 need privileges"))
                 : absl::InvalidArgumentError(
                       absl::StrCat(text, "; name an address of this machine"));
  }
  return one_is_free ? absl::OkStatus() : status;
}

}  // namespace millrace
