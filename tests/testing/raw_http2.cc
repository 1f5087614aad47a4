#include "tests/testing/raw_http2.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace millrace::testing {
namespace {

// RFC 7541, 5.2.
std::string HpackString(absl::string_view text) {
  std::string bytes;
  if (text.size() < 127) {
    bytes = BigEndian(text.size(), 1);
  } else {
    bytes = "\x7f";
    size_t rest = text.size() - 127;
    for (; rest >= 128; rest /= 128) bytes += BigEndian(rest % 128 + 128, 1);
    bytes += BigEndian(rest, 1);
  }
  return absl::StrCat(bytes, text);
}

}  // namespace

UniqueFd ConnectTo(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  return fd;
}

void Send(const UniqueFd& fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ASSERT_GT(sent, 0) << "the peer has closed the connection";
    bytes.remove_prefix(sent);
  }
}

std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  while (bytes-- > 0) text += static_cast<char>(value >> (8 * bytes) & 0xff);
  return text;
}

std::string Http2Preface() {
  return absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                      Http2Frame(kHttp2Settings, 0, 0, ""));
}

std::string Http2Frame(uint8_t type, uint8_t flags, uint32_t stream,
                       absl::string_view payload) {
  return absl::StrCat(BigEndian(payload.size(), 3), BigEndian(type, 1),
                      BigEndian(flags, 1), BigEndian(stream, 4), payload);
}

std::string Http2Field(absl::string_view name, absl::string_view value) {
  return absl::StrCat(BigEndian(0, 1), HpackString(name), HpackString(value));
}

std::string GrpcHeader(absl::string_view method) {
  return absl::StrCat(
      Http2Field(":method", "POST"), Http2Field(":scheme", "http"),
      Http2Field(":path", method), Http2Field(":authority", "localhost"),
      Http2Field("content-type", "application/grpc"),
      Http2Field("te", "trailers"));
}

}  // namespace millrace::testing
