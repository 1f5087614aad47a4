#include "trainer/ddp/peer_monitor.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/logging.h"
#include "common/retry_schedule.h"
#include "common/status_macros.h"
#include "trainer/ddp/listener.h"

namespace millrace::ddp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr absl::string_view kHandshake = "millrace-peer-1 ";
// Max bytes of a line. Lines that this side writes are shorter, because
// kMaxReason and kMaxName bound their parts.
constexpr size_t kMaxLine = 4096;
constexpr size_t kMaxReason = 2000;
constexpr size_t kMaxName = 255;
// Max connections without a handshake: bounds what a program on the network can
// make this process hold. A choice.
constexpr size_t kMaxStrangers = 64;
// Time that a connection has for its handshake. A choice.
constexpr std::chrono::seconds kHandshakeTime(10);
// Upper bound of the time that an ending rank waits for ranks that are just
// connecting, and again for its last line to arrive. A choice: a job that
// failed should not seem to hang.
constexpr std::chrono::milliseconds kGoodbyeTime(500);
// After accept() found no descriptor or no memory.
constexpr RetrySchedule kAcceptRetry = {.first = absl::Milliseconds(200),
                                        .max = absl::Milliseconds(200)};
// Between two attempts to connect to rank 0.
constexpr RetrySchedule kConnectRetry = {.first = absl::Milliseconds(100),
                                         .max = absl::Milliseconds(100)};

// `text` on one line: control characters would end the line for the peer.
std::string OneLine(absl::string_view text, size_t max_bytes) {
  std::string line(text.substr(0, max_bytes));
  for (char& c : line) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return line;
}
std::string OneWord(absl::string_view text) {
  std::string word = OneLine(text, kMaxName);
  std::replace(word.begin(), word.end(), ' ', '_');
  return word.empty() ? "?" : word;
}

// Never blocks and reports nothing. A line is cut or lost only when the
// socket's buffer is full, which takes a peer that has not read heartbeats for
// hours. A broken connection is noticed by the reader, behind the peer's last
// line.
void Write(const UniqueFd& fd, absl::string_view line) {
  if (!fd.ok()) return;
  [[maybe_unused]] const ssize_t n =
      send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::string MissingLine(const PeerMonitor::MissingRank& missing) {
  return absl::StrCat("missing ", missing.rank, " ", missing.host, " ",
                      OneLine(missing.how, kMaxReason), "\n");
}

// One attempt at each address of the host. Not open: `error` says why.
UniqueFd ConnectOnce(const std::string& address, uint16_t port,
                     absl::Duration timeout, std::string* error) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code =
      getaddrinfo(address.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (code != 0) *error = gai_strerror(code);
  // SO_SNDTIMEO also bounds connect(). 0 would mean no bound.
  const timeval patience = absl::ToTimeval(
      std::clamp(timeout, absl::Milliseconds(1), absl::Seconds(10)));
  UniqueFd connected;
  for (addrinfo* a = found; a != nullptr && !connected.ok(); a = a->ai_next) {
    UniqueFd fd(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (fd.ok() && connect(fd.get(), a->ai_addr, a->ai_addrlen) == 0) {
      connected = std::move(fd);
    } else {
      *error = std::strerror(errno);
    }
  }
  if (found != nullptr) freeaddrinfo(found);
  return connected;
}

}  // namespace

// A connection. Rank 0 has one for each other rank, and strangers; the other
// ranks have one, to rank 0. A closed `fd` marks a peer that is to be erased.
struct PeerMonitor::Peer {
  UniqueFd fd;
  bool met = false;  // the handshake is done
  uint32_t rank = 0;
  std::string host;
  std::string input;  // read, and not yet a whole line
  // When the last line came; before the first one, when it connected.
  SteadyTime heard = Clock::now();
};

std::string PeerMonitor::MissingRank::Sentence(uint32_t world_size) const {
  return absl::StrCat("rank ", rank, " of ", world_size, " on host ", host, " ",
                      how);
}

PeerMonitor::PeerMonitor(const Options& options)
    : options_(options),
      heartbeat_timeout_(absl::ToChronoNanoseconds(options.heartbeat_timeout)),
      beat_(std::min<Clock::duration>(std::chrono::seconds(1),
                                      heartbeat_timeout_ / 4)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      met_(options.world_size, options.rank != 0),
      started_(Clock::now()) {
  met_[options.rank] = true;
}

PeerMonitor::~PeerMonitor() { End("its run was abandoned"); }

absl::Status PeerMonitor::Start() {
  if (!wake_.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot monitor the ranks: ", std::strerror(errno)));
  }
  // From here on peers_, met_ and the sockets belong to the thread alone, so
  // they need no lock. mu_ guards what callers share with it: missing_, ending_
  // and why_.
  thread_ = NamedThread("mr-peers", [this] { Run(); });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PeerMonitor>> PeerMonitor::Listen(
    const Options& options, bool loopback) {
  MR_ASSIGN_OR_RETURN(ListeningSocket listener, ListenOnFreePort(loopback));
  std::unique_ptr<PeerMonitor> monitor(new PeerMonitor(options));
  monitor->listener_ = std::move(listener.fd);
  monitor->port_ = listener.port;
  MR_RETURN_IF_ERROR(monitor->Start());
  return monitor;
}

absl::StatusOr<std::unique_ptr<PeerMonitor>> PeerMonitor::Connect(
    const Options& options, const std::string& address, uint16_t port,
    absl::Duration timeout) {
  const SteadyTime deadline = SteadyDeadline(timeout);
  std::string error;
  auto peer = std::make_unique<Peer>();
  while (true) {
    peer->fd = ConnectOnce(address, port, timeout, &error);
    if (peer->fd.ok()) break;
    if (Clock::now() >= deadline) {
      return absl::UnavailableError(absl::StrCat(
          "cannot connect to rank 0 at ", address, ":", port, ": ", error,
          "; ranks of a job connect to each other on any port: check the "
          "firewall between their machines"));
    }
    absl::SleepFor(kConnectRetry.Delay());
  }
  peer->host = address;  // until the handshake names it
  // Rank 0 needs no handshake to be known: this side has chosen whom to connect
  // to.
  peer->met = true;
  peer->heard = Clock::now();
  Write(peer->fd, absl::StrCat(kHandshake, options.token, " ", options.rank,
                               " ", OneWord(options.host), "\n"));
  std::unique_ptr<PeerMonitor> monitor(new PeerMonitor(options));
  monitor->peers_.push_back(std::move(peer));
  MR_RETURN_IF_ERROR(monitor->Start());
  return monitor;
}

std::optional<PeerMonitor::MissingRank> PeerMonitor::Missing() const {
  MutexLock lock(mu_);
  return missing_;
}

std::optional<PeerMonitor::MissingRank> PeerMonitor::AwaitMissing(
    absl::Duration timeout) const {
  const SteadyTime deadline = SteadyDeadline(timeout);
  MutexLock lock(mu_);
  // Also ends when End() was called: then no rank is looked for any more, and
  // the caller must not wait for its whole timeout.
  while (!missing_.has_value() && !ending_) {
    if (!changed_.WaitUntil(lock, deadline)) break;
  }
  return missing_;
}

// The first reason counts: the destructor calls this again. The owner joins the
// thread here, so nothing is written after End() has returned.
void PeerMonitor::End(absl::string_view why) {
  {
    MutexLock lock(mu_);
    if (!ending_) {
      ending_ = true;
      why_ = std::string(why);
    }
    changed_.NotifyAll();
  }
  // The eventfd may be written before the thread polls: it stays readable.
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof(one));
  thread_.Join();
}

void PeerMonitor::Run() {
  // The thread. One round: look whether to leave, send and check heartbeats
  // when they are due, then wait for lines until the next of these times.
  SteadyTime next_beat = Clock::now();
  // Set once End() was called.
  SteadyTime leave_at = SteadyTime::max();
  while (true) {
    const SteadyTime now = Clock::now();
    if (leave_at == SteadyTime::max()) {
      MutexLock lock(mu_);
      if (ending_) leave_at = now + kGoodbyeTime;
    }
    // A rank that is just connecting learns why the job ends only if this side
    // still accepts it, so rank 0 stays until all were met or the time is over.
    // Other ranks have met all from the start.
    if (leave_at != SteadyTime::max() &&
        (now >= leave_at ||
         std::find(met_.begin(), met_.end(), false) == met_.end())) {
      break;
    }
    if (now >= next_beat) {
      for (const auto& peer : peers_) {
        if (peer->met) Write(peer->fd, "here\n");
      }
      // Sent before the check: a process that was stopped for long first shows
      // that it lives, and the others check by their own clocks.
      CheckHeartbeats(now);
      if (options_.while_missing) {
        if (const auto missing = Missing()) options_.while_missing(*missing);
      }
      next_beat = now + beat_;
    }
    Poll(std::min(next_beat, leave_at));
  }
  SayGoodbye();
}

void PeerMonitor::Poll(SteadyTime until) {
  // waits[2 + i] belongs to peers_[i]: peers are erased and accepted only after
  // the loop over waits. poll() skips a descriptor of -1.
  std::vector<pollfd> waits = {{wake_.get(), POLLIN, 0},
                               {listener_.get(), POLLIN, 0}};
  for (const auto& peer : peers_) waits.push_back({peer->fd.get(), POLLIN, 0});
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  poll(waits.data(), waits.size(),
       static_cast<int>(std::max<int64_t>(0, left.count())));
  // Reset before End()'s flag is read in Run(), so a wake-up is not lost.
  uint64_t woken = 0;
  [[maybe_unused]] const ssize_t n = read(wake_.get(), &woken, sizeof(woken));
  for (size_t i = 2; i < waits.size(); ++i) {
    if (waits[i].revents != 0) Read(*peers_[i - 2]);
  }
  std::erase_if(peers_, [](const auto& peer) { return !peer->fd.ok(); });
  if ((waits[1].revents & POLLIN) != 0) Accept();
}

void PeerMonitor::Accept() {
  UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.ok()) {
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS &&
        errno != ENOMEM) {
      return;
    }
    if (!std::exchange(accept_fails_, true)) {
      MR_LOG(WARNING)
          << "cannot accept the connection of another rank: "
          << std::strerror(errno)
          << "; the rank waits until a descriptor is free. Raise the limit of "
             "open files (ulimit -n) of this process or of the machine";
    }
    // The connection stays in the queue, so poll() would return at once.
    absl::SleepFor(kAcceptRetry.Delay());
    return;
  }
  accept_fails_ = false;
  const auto strangers =
      std::count_if(peers_.begin(), peers_.end(),
                    [](const auto& peer) { return !peer->met; });
  // Accepted and closed, so that the connections behind it are accepted.
  if (static_cast<size_t>(strangers) >= kMaxStrangers) return;
  peers_.push_back(std::make_unique<Peer>());
  peers_.back()->fd = std::move(fd);
}

void PeerMonitor::Read(Peer& peer) {
  char bytes[4096];
  // The thread reads at most one buffer of a peer in a round: a peer that sends
  // without end delays the others by that much.
  const ssize_t n = recv(peer.fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const char* broken = nullptr;
  if (n <= 0) {
    broken =
        "is gone: its connection closed without a goodbye, so its process was "
        "killed or crashed";
  } else {
    peer.input.append(bytes, static_cast<size_t>(n));
    size_t begin = 0;
    // A line may close the connection (goodbye, a wrong handshake): the rest is
    // then ignored.
    for (size_t end = peer.input.find('\n');
         end != std::string::npos && peer.fd.ok();
         end = peer.input.find('\n', begin)) {
      HandleLine(peer,
                 absl::string_view(peer.input).substr(begin, end - begin));
      begin = end + 1;
    }
    peer.input.erase(0, begin);
    if (!peer.fd.ok() || peer.input.size() <= kMaxLine) return;
    broken = "is gone: it sent a line that no rank sends";
  }
  // A stranger that disappears is no rank. The socket is closed first:
  // SetMissing() writes to every peer that is open and met.
  peer.fd.Reset();
  if (peer.met) SetMissing({peer.rank, peer.host, broken});
}

bool PeerMonitor::Handshake(Peer& peer, absl::string_view line) {
  if (!absl::ConsumePrefix(&line, kHandshake)) return false;
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  uint32_t rank = 0;
  // The first connection that names a rank, with the token, has it; a second
  // one is refused.
  if (words.size() != 3 || words[0] != options_.token ||
      !absl::SimpleAtoi(words[1], &rank) || rank >= options_.world_size ||
      met_[rank]) {
    return false;
  }
  met_[rank] = true;
  peer.met = true;
  peer.rank = rank;
  peer.host = OneWord(words[2]);
  Write(peer.fd, absl::StrCat(kHandshake, OneWord(options_.host), "\n"));
  // SetMissing() wrote its line to the peers that were met then.
  if (const auto missing = Missing()) Write(peer.fd, MissingLine(*missing));
  return true;
}

void PeerMonitor::HandleLine(Peer& peer, absl::string_view line) {
  if (!peer.met && !Handshake(peer, line)) {
    peer.fd.Reset();
    return;
  }
  peer.heard = Clock::now();
  if (line == "end" || absl::ConsumePrefix(&line, "end ")) {
    // Before SetMissing(), which writes to every open connection.
    peer.fd.Reset();
    if (line != "end") {
      SetMissing({peer.rank, peer.host, absl::StrCat("has ended: ", line)});
    }
    return;
  }
  // Rank 0 alone sends further kinds of lines.
  if (options_.rank == 0) return;
  if (absl::ConsumePrefix(&line, kHandshake)) {
    peer.host = OneWord(line);
  } else if (absl::ConsumePrefix(&line, "missing ")) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 2));
    uint32_t rank = 0;
    if (words.size() == 3 && absl::SimpleAtoi(words[0], &rank)) {
      SetMissing({rank, words[1], words[2]});
    }
  }
}

void PeerMonitor::CheckHeartbeats(SteadyTime now) {
  const std::string how =
      absl::StrCat("is gone: no heartbeat for ",
                   absl::FormatDuration(options_.heartbeat_timeout));
  for (const auto& peer : peers_) {
    const Clock::duration silence = now - peer->heard;
    if (silence <= (peer->met ? heartbeat_timeout_ : kHandshakeTime)) continue;
    // The silent rank is told as well: its process may only have been stopped.
    if (peer->met) SetMissing({peer->rank, peer->host, how});
    peer->fd.Reset();
  }
  std::erase_if(peers_, [](const auto& peer) { return !peer->fd.ok(); });
  // A rank without a handshake has no peer: the time since the start counts.
  const auto absent = std::find(met_.begin(), met_.end(), false);
  if (absent != met_.end() && now - started_ > heartbeat_timeout_) {
    SetMissing({static_cast<uint32_t>(absent - met_.begin()), "?", how});
  }
}

void PeerMonitor::SetMissing(MissingRank missing) {
  // While this rank says goodbye, the others close their connections, too. That
  // is no loss.
  if (leaving_) return;
  {
    MutexLock lock(mu_);
    // The first one stays: further ranks mostly end because of it.
    if (missing_.has_value()) return;
    missing_ = missing;
    changed_.NotifyAll();
  }
  // Callers of AwaitMissing() were woken before anything is written. Only rank
  // 0 has connections to the others.
  if (options_.rank != 0) return;
  for (const auto& peer : peers_) {
    if (peer->met) Write(peer->fd, MissingLine(missing));
  }
}

void PeerMonitor::SayGoodbye() {
  leaving_ = true;
  listener_.Reset();
  std::erase_if(peers_, [](const auto& peer) { return !peer->met; });
  std::string line = "end\n";
  {
    MutexLock lock(mu_);
    if (!why_.empty()) {
      line = absl::StrCat("end ", OneLine(why_, kMaxReason), "\n");
    }
  }
  // Only the direction of writing is closed. The peer's last lines are read
  // below until it closes its side: closing a socket with unread input would
  // reset the connection, and the peer could lose the line above.
  for (const auto& peer : peers_) {
    Write(peer->fd, line);
    shutdown(peer->fd.get(), SHUT_WR);
  }
  const SteadyTime deadline = Clock::now() + kGoodbyeTime;
  while (!peers_.empty() && Clock::now() < deadline) Poll(deadline);
  peers_.clear();
}

}  // namespace millrace::ddp
