#include "trainer/ddp/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::ddp {

absl::StatusOr<ListeningSocket> ListenOnFreePort(bool loopback) {
  for (const int family : {AF_INET6, AF_INET}) {
    if (loopback && family == AF_INET6) continue;
    // Zeros are any address and any port of both families.
    sockaddr_storage storage = {};
    storage.ss_family = static_cast<sa_family_t>(family);
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
    if (loopback) v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const address = reinterpret_cast<sockaddr*>(&storage);
    socklen_t size =
        family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // Of IPv4 this fails and changes nothing.
    const int no = 0;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    if (bind(fd.get(), address, size) == 0 &&
        listen(fd.get(), SOMAXCONN) == 0 &&
        getsockname(fd.get(), address, &size) == 0) {
      // sin_port and sin6_port lie at the same offset.
      return ListeningSocket{std::move(fd), ntohs(v4->sin_port)};
    }
  }
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", loopback ? "127.0.0.1" : "any address",
                   " for the other ranks: ", std::strerror(errno)));
}

}  // namespace millrace::ddp
