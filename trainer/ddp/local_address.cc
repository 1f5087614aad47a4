#include "trainer/ddp/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/unique_fd.h"

namespace millrace::ddp {
namespace {

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(
      &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::string Text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* bytes =
      address->sa_family == AF_INET
          ? static_cast<const void*>(
                &reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return inet_ntop(address->sa_family, bytes, text, sizeof(text)) == nullptr
             ? ""
             : text;
}

// IPv4 only: Gloo's address when the host's name resolves to the loopback.
std::string FirstOutwardAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* one = all; one != nullptr && found.empty();
       one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET ||
        (one->ifa_flags & IFF_UP) == 0 || IsLoopback(one->ifa_addr)) {
      continue;
    }
    found = Text(one->ifa_addr);
  }
  freeifaddrs(all);
  return found;
}

}  // namespace

std::string LocalAddressTowards(const std::string& host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) !=
      0) {
    return "";
  }
  std::string text;
  for (const addrinfo* a = found; a != nullptr && text.empty();
       a = a->ai_next) {
    // Connecting a datagram socket chooses a route and sends nothing.
    const UniqueFd fd(socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage storage = {};
    socklen_t size = sizeof(storage);
    auto* own = reinterpret_cast<sockaddr*>(&storage);
    if (!fd.ok() || connect(fd.get(), a->ai_addr, a->ai_addrlen) != 0 ||
        getsockname(fd.get(), own, &size) != 0) {
      continue;
    }
    text = IsLoopback(own) ? FirstOutwardAddress() : Text(own);
  }
  freeaddrinfo(found);
  return text;
}

}  // namespace millrace::ddp
