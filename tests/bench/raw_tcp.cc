#include "tests/bench/raw_tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/logging.h"

namespace millrace {
namespace {

// Of one read.
constexpr size_t kPiece = 256 << 10;

sockaddr_in Ipv4(const std::string& host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  MR_CHECK(inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1) << host;
  return address;
}

void WriteForEver(int fd, absl::Span<const uint8_t> bytes) {
  size_t at = 0;
  while (true) {
    const ssize_t n =
        send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (n <= 0) break;
    at += n;
    if (at == bytes.size()) at = 0;
  }
  close(fd);
}

}  // namespace

int ServeRawTcp(const std::string& host, absl::Span<const uint8_t> bytes) {
  MR_CHECK(!bytes.empty());
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  MR_CHECK(fd >= 0);
  sockaddr_in address = Ipv4(host, 0);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  MR_CHECK(bind(fd, generic, sizeof(address)) == 0 && listen(fd, 16) == 0);
  socklen_t length = sizeof(address);
  MR_CHECK(getsockname(fd, generic, &length) == 0);
  // Both kinds of thread last as long as the process, which ends by a signal.
  std::thread([fd, bytes] {
    while (true) {
      const int client = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
      if (client >= 0) std::thread(WriteForEver, client, bytes).detach();
    }
  }).detach();
  return ntohs(address.sin_port);
}

RawTcpStream::RawTcpStream(const std::string& address)
    : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(address, absl::MaxSplits(':', 1));
  int port = 0;
  MR_CHECK(absl::SimpleAtoi(parts.second, &port)) << address;
  const sockaddr_in to = Ipv4(parts.first, port);
  MR_CHECK(connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) ==
           0)
      << address;
}

RawTcpStream::~RawTcpStream() { close(fd_); }

void RawTcpStream::Read(absl::Span<uint8_t> bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n =
        recv(fd_, bytes.data() + at, std::min(kPiece, bytes.size() - at), 0);
    MR_CHECK(n > 0) << "the stream ended";
    at += n;
  }
}

}  // namespace millrace
