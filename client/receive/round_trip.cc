#include "client/receive/round_trip.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace millrace::receive {
namespace {

using Clock = std::chrono::steady_clock;

// A busy machine sometimes answers late, so the shortest of several attempts
// counts.
constexpr int kAttempts = 3;
// Addresses beyond this are measured only once.
constexpr absl::Duration kClearlyFar = absl::Milliseconds(2);

class Probe {
 public:
  // Begins to connect; fd() is -1 when that failed at once.
  explicit Probe(absl::string_view target) {
    sockaddr_storage storage = {};
    const socklen_t length = Parse(target, &storage);
    if (length == 0) return;
    fd_ = socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                 0);
    if (fd_ < 0) return;
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&storage), length) !=
            0 &&
        errno != EINPROGRESS) {
      Close();
    }
  }
  ~Probe() { Close(); }
  Probe(Probe&& other) : fd_(std::exchange(other.fd_, -1)) {}
  Probe& operator=(Probe&&) = delete;

  int fd() const { return fd_; }

  // Call it when the socket is writable: connected, or refused. Ends the probe.
  absl::Duration Take() {
    tcp_info info = {};
    socklen_t length = sizeof(info);
    const bool known =
        getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
        info.tcpi_state == TCP_ESTABLISHED && info.tcpi_rtt > 0;
    Close();
    if (!known) return absl::InfiniteDuration();
    return absl::Microseconds(info.tcpi_rtt);
  }

 private:
  // Parses a target of gRPC: ipv4:A:PORT or ipv6:[A]:PORT. Returns the length
  // of the address; 0: another form.
  static socklen_t Parse(absl::string_view target, sockaddr_storage* storage) {
    const size_t colon = target.rfind(':');
    int port = 0;
    if (colon == absl::string_view::npos ||
        !absl::SimpleAtoi(target.substr(colon + 1), &port)) {
      return 0;
    }
    absl::string_view host = target.substr(0, colon);
    if (absl::ConsumePrefix(&host, "ipv4:")) {
      auto* address = reinterpret_cast<sockaddr_in*>(storage);
      address->sin_family = AF_INET;
      address->sin_port = htons(static_cast<uint16_t>(port));
      return inet_pton(AF_INET, std::string(host).c_str(),
                       &address->sin_addr) == 1
                 ? sizeof(*address)
                 : 0;
    }
    if (!absl::ConsumePrefix(&host, "ipv6:[") ||
        !absl::ConsumeSuffix(&host, "]")) {
      return 0;
    }
    auto* address = reinterpret_cast<sockaddr_in6*>(storage);
    address->sin6_family = AF_INET6;
    address->sin6_port = htons(static_cast<uint16_t>(port));
    return inet_pton(AF_INET6, std::string(host).c_str(),
                     &address->sin6_addr) == 1
               ? sizeof(*address)
               : 0;
  }

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  int fd_ = -1;
};

// Connects to all addresses in parallel.
void MeasureOnce(absl::Duration timeout, absl::Span<Address* const> addresses) {
  std::vector<Probe> probes;
  for (Address* address : addresses) probes.emplace_back(address->target);
  const Clock::time_point deadline =
      Clock::now() + absl::ToChronoNanoseconds(timeout);
  std::vector<pollfd> fds(probes.size());
  while (true) {
    bool waiting = false;
    for (size_t i = 0; i < probes.size(); ++i) {
      fds[i] = {probes[i].fd(), POLLOUT, 0};  // ignored below 0
      waiting |= probes[i].fd() >= 0;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (!waiting || left.count() <= 0) return;
    if (poll(fds.data(), fds.size(), static_cast<int>(left.count())) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    for (size_t i = 0; i < probes.size(); ++i) {
      if (fds[i].revents == 0) continue;
      addresses[i]->round_trip =
          std::min(*addresses[i]->round_trip, probes[i].Take());
    }
  }
}

}  // namespace

void MeasureRoundTrips(absl::Duration timeout, absl::Span<Address> addresses) {
  std::vector<Address*> measured;
  for (Address& address : addresses) {
    if (address.round_trip.has_value()) continue;
    address.round_trip = absl::InfiniteDuration();
    measured.push_back(&address);
  }
  for (int i = 0; i < kAttempts && !measured.empty(); ++i) {
    MeasureOnce(timeout, measured);
    measured.erase(std::remove_if(measured.begin(), measured.end(),
                                  [](const Address* address) {
                                    return *address->round_trip > kClearlyFar;
                                  }),
                   measured.end());
  }
}

}  // namespace millrace::receive
