// A link with delay between two network namespaces, for kernels without netem:
// a pair of TUN interfaces, one here and one in the other namespace, and a
// thread a direction that holds every packet for half of the round trip.
//
//   delay_line --namespace=/run/netns/server --here=client1 --there=server1
//              --round_trip_ms=10
//
// Prints "ready" when both interfaces are there (without addresses, down) and
// runs until it is killed. Loses nothing, and reorders nothing. Packets are
// those of segmentation offload, up to 64 KiB, so that one system call moves
// many segments, as with a network card. Needs the right to make interfaces in
// both namespaces.

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/logging.h"

namespace millrace {
namespace {

// A packet of 64 KiB and its offload header.
constexpr size_t kMaxPacketBytes = (64 << 10) + 64;
// On their way at a time, in one direction; further ones wait at the sender.
constexpr size_t kMaxBytesUnderWay = size_t{1} << 30;

uint64_t NowNs() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return uint64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// In the namespace of this thread.
int OpenTun(const std::string& name) {
  const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  MR_CHECK(fd >= 0) << "/dev/net/tun: " << std::strerror(errno);
  ifreq request = {};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  MR_CHECK(name.size() < IFNAMSIZ) << name;
  std::memcpy(request.ifr_name, name.data(), name.size());
  MR_CHECK(ioctl(fd, TUNSETIFF, &request) == 0)
      << name << ": " << std::strerror(errno);
  MR_CHECK(ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) == 0)
      << name << ": " << std::strerror(errno);
  return fd;
}

// One direction.
class Line {
 public:
  Line(int from, int to, uint64_t delay_ns)
      : from_(from), to_(to), delay_ns_(delay_ns), packet_(kMaxPacketBytes) {}

  [[noreturn]] void Run() {
    prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds
    while (true) {
      const bool reads = under_way_ < kMaxBytesUnderWay && ReadAll();
      WriteDue();
      if (reads) continue;
      pollfd fd = {from_, POLLIN, 0};
      if (under_way_ >= kMaxBytesUnderWay) fd.fd = -1;
      timespec wait = {};
      if (!queue_.empty()) {
        const uint64_t now = NowNs();
        const uint64_t due = queue_.front().due_ns;
        wait.tv_nsec = static_cast<long>(
            std::min<uint64_t>(due > now ? due - now : 0, 999'999'999));
      }
      ppoll(&fd, 1, queue_.empty() ? nullptr : &wait, nullptr);
    }
  }

 private:
  struct Packet {
    uint64_t due_ns;
    std::unique_ptr<uint8_t[]> bytes;
    size_t size;
  };

  // A few packets; false when there was none.
  bool ReadAll() {
    bool any = false;
    for (int i = 0; i < 16; ++i) {
      const ssize_t n = read(from_, packet_.data(), packet_.size());
      if (n <= 0) break;
      any = true;
      Packet packet{NowNs() + delay_ns_, std::make_unique<uint8_t[]>(n),
                    static_cast<size_t>(n)};
      std::memcpy(packet.bytes.get(), packet_.data(), n);
      under_way_ += n;
      queue_.push_back(std::move(packet));
    }
    return any;
  }

  void WriteDue() {
    const uint64_t now = NowNs();
    while (!queue_.empty() && queue_.front().due_ns <= now) {
      const Packet& packet = queue_.front();
      // The receiver's side takes it or, like any link, loses it: while the
      // interface is down.
      const ssize_t n = write(to_, packet.bytes.get(), packet.size);
      if (n < 0 && errno == EAGAIN) return;
      under_way_ -= packet.size;
      queue_.pop_front();
    }
  }

  const int from_;
  const int to_;
  const uint64_t delay_ns_;
  std::vector<uint8_t> packet_;
  std::deque<Packet> queue_;
  size_t under_way_ = 0;
};

int Main(int argc, char** argv) {
  std::string other;
  std::string here;
  std::string there;
  double round_trip_ms = -1;
  for (int i = 1; i < argc; ++i) {
    absl::string_view text = argv[i];
    if (absl::ConsumePrefix(&text, "--namespace=")) {
      other = std::string(text);
    } else if (absl::ConsumePrefix(&text, "--here=")) {
      here = std::string(text);
    } else if (absl::ConsumePrefix(&text, "--there=")) {
      there = std::string(text);
    } else if (!absl::ConsumePrefix(&text, "--round_trip_ms=") ||
               !absl::SimpleAtod(text, &round_trip_ms)) {
      std::fprintf(stderr, "delay_line: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  if (other.empty() || here.empty() || there.empty() || round_trip_ms < 0) {
    std::fprintf(stderr,
                 "delay_line: give --namespace, --here, --there and "
                 "--round_trip_ms\n");
    return 2;
  }
  const int near = OpenTun(here);
  int far = -1;
  std::thread([&] {
    const int fd = open(other.c_str(), O_RDONLY | O_CLOEXEC);
    MR_CHECK(fd >= 0 && setns(fd, CLONE_NEWNET) == 0)
        << other << ": " << std::strerror(errno);
    close(fd);
    far = OpenTun(there);
  }).join();
  const auto delay_ns = static_cast<uint64_t>(round_trip_ms / 2 * 1e6);
  std::printf("ready\n");
  std::fflush(stdout);
  std::thread forth([&] { Line(near, far, delay_ns).Run(); });
  Line(far, near, delay_ns).Run();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
