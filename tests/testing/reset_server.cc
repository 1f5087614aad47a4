#include "tests/testing/reset_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/logging.h"

namespace millrace::testing {
namespace {

// Types of frames: RFC 9113, section 6.
constexpr uint8_t kHeaders = 1;
constexpr uint8_t kRstStream = 3;
constexpr uint8_t kSettings = 4;
constexpr uint8_t kPing = 6;
constexpr uint8_t kAck = 1;
constexpr size_t kPrefaceBytes = 24;

struct FrameHead {
  uint32_t length = 0;
  uint8_t type = 0;
  uint8_t flags = 0;
  uint32_t stream = 0;
};

bool ReadAll(int fd, void* data, size_t bytes) {
  return bytes == 0 ||
         recv(fd, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

std::string Number(uint32_t value) {
  std::string bytes(4, '\0');
  for (int i = 0; i < 4; ++i)
    bytes[i] = static_cast<char>(value >> (24 - 8 * i));
  return bytes;
}

bool Write(int fd, FrameHead head, const std::string& payload) {
  std::string bytes = Number(static_cast<uint32_t>(payload.size())).substr(1);
  bytes += static_cast<char>(head.type);
  bytes += static_cast<char>(head.flags);
  bytes += Number(head.stream) + payload;
  return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool Read(int fd, FrameHead* head, std::string* payload) {
  uint8_t bytes[9];
  if (!ReadAll(fd, bytes, sizeof(bytes))) return false;
  head->length = uint32_t{bytes[0]} << 16 | uint32_t{bytes[1]} << 8 | bytes[2];
  head->type = bytes[3];
  head->flags = bytes[4];
  head->stream = (uint32_t{bytes[5]} & 0x7f) << 24 | uint32_t{bytes[6]} << 16 |
                 uint32_t{bytes[7]} << 8 | bytes[8];
  payload->resize(head->length);
  return ReadAll(fd, payload->data(), payload->size());
}

}  // namespace

ResetServer::ResetServer(uint32_t code) : code_(code) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  MR_CHECK(listener_ >= 0 && bind(listener_, any, length) == 0 &&
           listen(listener_, 16) == 0 &&
           getsockname(listener_, any, &length) == 0)
      << "no port of the loopback";
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Accept(); });
}

ResetServer::~ResetServer() {
  stop_ = true;
  shutdown(listener_, SHUT_RDWR);  // ends accept()
  thread_.join();
  for (const int fd : connections_) shutdown(fd, SHUT_RDWR);
  for (std::thread& thread : serving_) thread.join();
  for (const int fd : connections_) close(fd);
  close(listener_);
}

std::string ResetServer::address() const {
  return "127.0.0.1:" + std::to_string(port_);
}

void ResetServer::Accept() {
  while (!stop_) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    connections_.push_back(fd);
    serving_.emplace_back([this, fd] { Serve(fd); });
  }
}

void ResetServer::Serve(int fd) {
  char preface[kPrefaceBytes];
  if (!Write(fd, {.type = kSettings}, "") ||
      !ReadAll(fd, preface, sizeof(preface))) {
    return;
  }
  FrameHead head;
  std::string payload;
  while (Read(fd, &head, &payload)) {
    const bool ack = (head.flags & kAck) != 0;
    if (head.type == kSettings && !ack) {
      Write(fd, {.type = kSettings, .flags = kAck}, "");
    } else if (head.type == kPing && !ack) {
      Write(fd, {.type = kPing, .flags = kAck}, payload);
    } else if (head.type == kHeaders) {
      Write(fd, {.type = kRstStream, .stream = head.stream}, Number(code_));
      ++resets_;
    }
  }
}

}  // namespace millrace::testing
