#include "tests/testing/tcp_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/logging.h"

namespace millrace::testing {
namespace {

constexpr size_t kMaxWaiting = 256 << 10;
// A limited link is let carry its bytes in so many parts of a second.
constexpr int kTickMillis = 10;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void Prepare(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

}  // namespace

TcpGate::TcpGate(int port) : port_(port) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  MR_CHECK(
      listener_ >= 0 &&
      bind(listener_, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
      listen(listener_, 64) == 0 &&
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) ==
          0 &&
      pipe(wake_) == 0)
      << "no port for a gate: errno " << errno;
  listens_on_ = ntohs(address.sin_port);
  for (const int fd : {listener_, wake_[0], wake_[1]}) Prepare(fd);
  thread_ = std::thread([this] { Loop(); });
}

TcpGate::~TcpGate() {
  Set(stop_, true);
  thread_.join();
  for (const int fd : {listener_, wake_[0], wake_[1]}) close(fd);
}

std::string TcpGate::address() const {
  return absl::StrCat("127.0.0.1:", listens_on_);
}

void TcpGate::Wake() {
  const char byte = 0;
  // A full pipe wakes, too.
  (void)!write(wake_[1], &byte, 1);
}

void TcpGate::Accept() {
  const int client = accept(listener_, nullptr, nullptr);
  if (client < 0) return;
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = Loopback(port_);
  if (server < 0 || connect(server, reinterpret_cast<const sockaddr*>(&address),
                            sizeof(address)) != 0) {
    close(client);
    if (server >= 0) close(server);
    return;
  }
  Prepare(client);
  Prepare(server);
  uint64_t number = 0;
  {
    MutexLock lock(damage_mu_);
    number = ++accepted_;
  }
  connections_.push_back({{.from = client,
                           .to = server,
                           .limited = false,
                           .connection = number,
                           .waiting = {}},
                          {.from = server,
                           .to = client,
                           .limited = true,
                           .connection = number,
                           .waiting = {}}});
}

bool TcpGate::Pass(Way& way) {
  if (way.waiting.size() < kMaxWaiting && !way.ended) {
    char buffer[64 << 10];
    const ssize_t bytes = read(way.from, buffer, sizeof(buffer));
    if (bytes == 0) way.ended = true;
    if (bytes < 0 && errno != EAGAIN) return false;
    if (bytes > 0) {
      DamageBytes(way, buffer, static_cast<size_t>(bytes));
      way.waiting.insert(way.waiting.end(), buffer, buffer + bytes);
    }
  }
  size_t most = way.waiting.size();
  const bool limited = way.limited && limit_.load() > 0;
  if (limited) {
    most = std::min(most, static_cast<size_t>(std::max<int64_t>(room_, 0)));
  }
  if (most > 0) {
    const ssize_t bytes = send(way.to, way.waiting.data(), most, MSG_NOSIGNAL);
    if (bytes < 0 && errno != EAGAIN) return false;
    if (bytes > 0) {
      way.waiting.erase(way.waiting.begin(), way.waiting.begin() + bytes);
      if (limited) room_ -= bytes;
    }
  }
  return !way.ended || !way.waiting.empty();
}

void TcpGate::Damage(const std::string& pattern, int times,
                     uint64_t connections) {
  MutexLock lock(damage_mu_);
  first_damaged_ = connections == 0 ? 1 : accepted_ + 1;
  end_damaged_ = connections == 0 ? std::numeric_limits<uint64_t>::max()
                                  : first_damaged_ + connections;
  bit_ = -1;
  pattern_ = pattern;
  times_ = times;
  damages_ = 0;
}

void TcpGate::DamageBit(bool to_server, uint64_t byte, int bit) {
  MutexLock lock(damage_mu_);
  first_damaged_ = accepted_ + 1;
  end_damaged_ = first_damaged_ + 1;
  bit_to_server_ = to_server;
  bit_byte_ = byte;
  bit_ = bit;
  passed_[0] = passed_[1] = 0;
  damages_ = 0;
}

uint64_t TcpGate::passed(bool to_server) const {
  MutexLock lock(damage_mu_);
  return passed_[to_server ? 1 : 0];
}

int TcpGate::damages() const {
  MutexLock lock(damage_mu_);
  return damages_;
}

void TcpGate::DamageBytes(Way& way, char* bytes, size_t count) {
  const uint64_t before = way.passed;
  way.passed += count;
  MutexLock lock(damage_mu_);
  if (way.connection < first_damaged_ || way.connection >= end_damaged_) return;
  if (bit_ >= 0) {
    // The way from the server is the limited one.
    const bool to_server = !way.limited;
    passed_[to_server ? 1 : 0] = way.passed;
    if (to_server != bit_to_server_ || bit_byte_ < before ||
        bit_byte_ >= way.passed) {
      return;
    }
    bytes[bit_byte_ - before] ^= static_cast<char>(1 << bit_);
    ++damages_;
    return;
  }
  char* const end = bytes + count;
  while (damages_ < times_) {
    bytes = std::search(bytes, end, pattern_.begin(), pattern_.end());
    if (bytes == end) return;
    bytes += pattern_.size();
    bytes[-1] ^= 1;
    ++damages_;
  }
}

void TcpGate::Loop() {
  auto last = std::chrono::steady_clock::now();
  std::vector<pollfd> waits;
  while (!stop_.load()) {
    const bool cut = cut_.load();
    const uint64_t limit = limit_.load();
    const auto now = std::chrono::steady_clock::now();
    if (limit > 0) {
      const double seconds = std::chrono::duration<double>(now - last).count();
      const auto tick = static_cast<int64_t>(limit * kTickMillis / 1000 + 1);
      room_ = std::min(room_ + static_cast<int64_t>(limit * seconds), 2 * tick);
    }
    last = now;
    waits.assign({{wake_[0], POLLIN, 0}});
    int timeout = -1;
    if (!cut) {
      waits.push_back({listener_, POLLIN, 0});
      for (const Connection& connection : connections_) {
        for (const Way* way : {&connection.there, &connection.back}) {
          if (way->waiting.size() < kMaxWaiting && !way->ended) {
            waits.push_back({way->from, POLLIN, 0});
          }
          if (way->waiting.empty()) continue;
          if (way->limited && limit > 0 && room_ <= 0) {
            timeout = kTickMillis;
          } else {
            waits.push_back({way->to, POLLOUT, 0});
          }
        }
      }
    }
    poll(waits.data(), waits.size(), timeout);
    char bytes[64];
    while (read(wake_[0], bytes, sizeof(bytes)) > 0) {
    }
    if (cut_.load()) continue;
    Accept();
    for (auto it = connections_.begin(); it != connections_.end();) {
      if (Pass(it->there) && Pass(it->back)) {
        ++it;
        continue;
      }
      close(it->there.from);
      close(it->there.to);
      it = connections_.erase(it);
    }
  }
  for (const Connection& connection : connections_) {
    close(connection.there.from);
    close(connection.there.to);
  }
}

}  // namespace millrace::testing
