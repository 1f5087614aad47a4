#include "trainer/ddp/roll_call.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr absl::string_view kGreeting = "millrace-roll-1 ";
// Bytes of a line that may come; what this side writes stays below
// (kLongestReason and kLongestName bound its parts). More is no rank's.
constexpr size_t kLongestLine = 4096;
constexpr size_t kLongestReason = 2000;
constexpr size_t kLongestName = 255;
// Bytes that wait to be written to a peer that does not read. Further lines are
// dropped: signs of life, to a peer that is about to count as gone.
constexpr size_t kMostUnsent = 1 << 16;
// Connections that have not greeted: bounds what a program on the network can
// make this process hold. A choice.
constexpr size_t kMostStrangers = 64;
// Time for a connection to greet. A choice.
constexpr std::chrono::seconds kGreetingTime(10);
// Upper bound of the time that a rank stays to say why it ends: for ranks that
// are just connecting, and again for the last words to arrive. A choice: a job
// that failed should not seem to hang.
constexpr std::chrono::milliseconds kGoodbyeTime(500);
// Between two attempts to accept, where the process has no descriptor or the
// machine no memory for one.
constexpr std::chrono::milliseconds kAcceptPause(200);
// Between two attempts to connect to rank 0.
constexpr std::chrono::milliseconds kConnectPause(100);

absl::Status Unavailable(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// The part of a text that fits into one line, or into one word of it: control
// characters would end the line for the other side.
std::string OneLine(absl::string_view text, size_t longest) {
  std::string line(text.substr(0, longest));
  for (char& c : line) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return line;
}
std::string OneWord(absl::string_view text) {
  std::string word = OneLine(text, kLongestName);
  std::replace(word.begin(), word.end(), ' ', '_');
  return word.empty() ? "?" : word;
}

std::string MissingLine(const RollCall::Absence& absence) {
  return absl::StrCat("missing ", absence.rank, " ", absence.host, " ",
                      OneLine(absence.how, kLongestReason), "\n");
}

}  // namespace

// A connection. On rank 0 one for each other rank, and strangers; on other
// ranks the one to rank 0. A closed `fd` marks a peer to be erased.
//
// Not met -> met -> ended (it has said goodbye; that its connection closes is
// then no news), or lost.
struct RollCall::Peer {
  UniqueFd fd;
  // It has greeted; on other ranks set from the beginning.
  bool met = false;
  uint32_t rank = 0;
  std::string host;
  // What was read behind the last whole line.
  std::string input;
  // What could not be written without blocking.
  std::string unsent;
  // When the last line came; before that, when it connected.
  SteadyTime heard;
  // It has said goodbye.
  bool ended = false;
};

std::string RollCall::Absence::Sentence(uint32_t world_size) const {
  return absl::StrCat("rank ", rank, " of ", world_size, " on host ", host, " ",
                      how);
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "?";
  return OneWord(name);
}

RollCall::RollCall(const Options& options, Role role, UniqueFd listener,
                   uint16_t port)
    : options_(options),
      role_(role),
      silence_(absl::ToChronoNanoseconds(options.silence)),
      beat_(std::min<Clock::duration>(std::chrono::seconds(1), silence_ / 4)),
      port_(port),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      listener_(std::move(listener)),
      met_(options.world_size, false),
      started_(Clock::now()) {}

RollCall::~RollCall() { End("its run was given up"); }

absl::Status RollCall::Start() {
  if (!wake_.ok()) return Unavailable("cannot watch the ranks");
  thread_ = NamedThread("mr-roll-call", [this] { Run(); });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RollCall>> RollCall::Keep(const Options& options,
                                                         bool loopback) {
  // Both kinds of addresses where the machine has both.
  UniqueFd listener;
  uint16_t port = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    if (loopback && family == AF_INET6) continue;
    UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_storage storage = {};
    storage.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = sizeof(sockaddr_in6);
    if (family == AF_INET) {
      size = sizeof(sockaddr_in);
      reinterpret_cast<sockaddr_in*>(&storage)->sin_addr.s_addr =
          htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
    } else {
      const int no = 0;
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    }
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    if (fd.ok() && bind(fd.get(), address, size) == 0 &&
        listen(fd.get(), SOMAXCONN) == 0 &&
        getsockname(fd.get(), address, &size) == 0) {
      port = ntohs(family == AF_INET
                       ? reinterpret_cast<sockaddr_in*>(&storage)->sin_port
                       : reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port);
      listener = std::move(fd);
      break;
    }
  }
  if (!listener.ok()) return Unavailable("cannot listen for the other ranks");
  std::unique_ptr<RollCall> roll(
      new RollCall(options, Role::kKeeper, std::move(listener), port));
  // Before the thread runs: it waits for all others only.
  roll->met_[options.rank] = true;
  MR_RETURN_IF_ERROR(roll->Start());
  return roll;
}

absl::StatusOr<std::unique_ptr<RollCall>> RollCall::Answer(
    const Options& options, const std::string& address, uint16_t port,
    absl::Duration timeout) {
  const SteadyTime deadline = SteadyDeadline(timeout);
  const std::string service = absl::StrCat(port);
  std::string error;
  UniqueFd fd;
  while (!fd.ok()) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int code =
        getaddrinfo(address.c_str(), service.c_str(), &hints, &found);
    if (code != 0) error = gai_strerror(code);
    for (addrinfo* a = found; a != nullptr && !fd.ok(); a = a->ai_next) {
      UniqueFd one(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      // Also bounds connect().
      const timeval patience = absl::ToTimeval(
          std::max(absl::Milliseconds(1),
                   std::min(timeout, absl::Duration(absl::Seconds(10)))));
      setsockopt(one.get(), SOL_SOCKET, SO_SNDTIMEO, &patience,
                 sizeof(patience));
      if (one.ok() && connect(one.get(), a->ai_addr, a->ai_addrlen) == 0) {
        fd = std::move(one);
      } else {
        error = std::strerror(errno);
      }
    }
    if (found != nullptr) freeaddrinfo(found);
    if (fd.ok()) break;
    if (Clock::now() >= deadline) {
      return absl::UnavailableError(absl::StrCat(
          "rank 0 cannot be reached at ", address, ":", port, ": ", error,
          "; ranks of a job connect to each other on any port: look at the "
          "firewall between their machines"));
    }
    std::this_thread::sleep_for(kConnectPause);
  }
  std::unique_ptr<RollCall> roll(
      new RollCall(options, Role::kMember, UniqueFd(), 0));
  auto peer = std::make_unique<Peer>();
  peer->fd = std::move(fd);
  peer->rank = 0;
  peer->host = address;  // until it says its name
  peer->met = true;
  peer->heard = Clock::now();
  // Before the thread runs, which owns the peer from Start() on.
  roll->Write(*peer, absl::StrCat(kGreeting, options.token, " ", options.rank,
                                  " ", OneWord(options.host), "\n"));
  roll->peers_.push_back(std::move(peer));
  MR_RETURN_IF_ERROR(roll->Start());
  return roll;
}

std::optional<RollCall::Absence> RollCall::Missing() const {
  MutexLock lock(mu_);
  return missing_;
}

std::optional<RollCall::Absence> RollCall::AwaitMissing(
    absl::Duration timeout) const {
  const SteadyTime deadline = SteadyDeadline(timeout);
  MutexLock lock(mu_);
  while (!missing_.has_value() && !ending_) {
    if (!changed_.WaitUntil(lock, deadline)) break;
  }
  return missing_;
}

void RollCall::End(absl::string_view why) {
  {
    MutexLock lock(mu_);
    if (!ending_) {
      ending_ = true;
      why_ = std::string(why);
    }
    changed_.NotifyAll();
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof(one));
  // The thread says goodbye and ends, within about twice kGoodbyeTime. The
  // eventfd may be written before the thread looks: it stays readable.
  thread_.Join();
}

void RollCall::Run() {
  SteadyTime next_beat = Clock::now();
  // When to leave at the latest, once End() was called.
  SteadyTime leave_at = SteadyTime::max();
  while (true) {
    const SteadyTime now = Clock::now();
    {
      MutexLock lock(mu_);
      if (ending_ && leave_at == SteadyTime::max()) {
        leave_at = now + kGoodbyeTime;
      }
    }
    // Rank 0 waits a little for ranks that are just connecting, so that it can
    // tell them why it ends. Others leave at once: they have one connection.
    if (leave_at != SteadyTime::max() &&
        (now >= leave_at || role_ == Role::kMember ||
         std::find(met_.begin(), met_.end(), false) == met_.end())) {
      break;
    }
    if (now >= next_beat) {
      for (auto& peer : peers_) {
        if (peer->met && !peer->ended) Write(*peer, "here\n");
      }
      CheckSilence(now);
      // On this thread, without locks; it may end the process.
      if (options_.while_missing) {
        if (const auto absence = Missing()) options_.while_missing(*absence);
      }
      next_beat = now + beat_;
    }
    // waits[first + i] belongs to peers_[i]: peers are erased and accepted only
    // after the walk over waits. waits[1] is the listener, where there is one;
    // poll() passes over it while accepting pauses.
    std::vector<pollfd> waits = {{wake_.get(), POLLIN, 0}};
    const bool pauses = now < accept_from_;
    if (listener_.ok()) {
      waits.push_back({pauses ? -1 : listener_.get(), POLLIN, 0});
    }
    const size_t first = waits.size();
    for (const auto& peer : peers_) {
      const short events =
          static_cast<short>(POLLIN | (peer->unsent.empty() ? 0 : POLLOUT));
      waits.push_back({peer->fd.get(), events, 0});
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        (pauses ? std::min(next_beat, accept_from_) : next_beat) -
        Clock::now());
    poll(waits.data(), waits.size(),
         static_cast<int>(std::max<int64_t>(0, left.count())));
    uint64_t woken = 0;
    [[maybe_unused]] const ssize_t n = read(wake_.get(), &woken, sizeof(woken));
    for (size_t i = first; i < waits.size(); ++i) {
      Peer& peer = *peers_[i - first];
      // Flush() never closes a connection, so Read() finds it open.
      if ((waits[i].revents & POLLOUT) != 0) Flush(peer);
      if ((waits[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) Read(peer);
    }
    std::erase_if(peers_, [](const auto& peer) { return !peer->fd.ok(); });
    if (listener_.ok() && (waits[1].revents & POLLIN) != 0) Accept();
  }
  SayGoodbye();
}

void RollCall::Accept() {
  while (true) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.ok()) {
      // The connection stays in the queue, and poll() would return at once.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
          errno == ENOMEM) {
        HoldAccepts(errno);
      }
      return;
    }
    accept_fails_ = false;
    const auto strangers =
        std::count_if(peers_.begin(), peers_.end(),
                      [](const auto& peer) { return !peer->met; });
    // Accepted and closed, so that the connections behind it are accepted.
    if (static_cast<size_t>(strangers) >= kMostStrangers) continue;
    auto peer = std::make_unique<Peer>();
    peer->fd = std::move(fd);
    peer->heard = Clock::now();
    peers_.push_back(std::move(peer));
  }
}

void RollCall::HoldAccepts(int error) {
  accept_from_ = Clock::now() + kAcceptPause;
  if (accept_fails_) return;
  accept_fails_ = true;
  MR_LOG(WARNING) << "cannot accept the connection of another rank: "
                  << std::strerror(error)
                  << "; the rank waits until there is room. Raise the limit of "
                     "open files (ulimit -n) of this process or of the machine";
}

void RollCall::Read(Peer& peer) {
  char bytes[4096];
  const ssize_t n = recv(peer.fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    peer.fd.Reset();
    // Closed before Lose(), which writes to every open connection.
    if (peer.met && !peer.ended) {
      Lose({peer.rank, peer.host,
            "is gone: its connection closed without a word, so its process "
            "was killed or has crashed"});
    }
    return;
  }
  peer.input.append(bytes, static_cast<size_t>(n));
  size_t begin = 0;
  // A line may close the connection (goodbye, a wrong greeting): the rest is
  // then not looked at.
  for (size_t end = peer.input.find('\n');
       end != std::string::npos && peer.fd.ok();
       end = peer.input.find('\n', begin)) {
    const absl::string_view line =
        absl::string_view(peer.input).substr(begin, end - begin);
    if (peer.met) {
      Understand(peer, line);
    } else if (!Greet(peer, line)) {
      peer.fd.Reset();
    }
    begin = end + 1;
  }
  peer.input.erase(0, begin);
  // No rank writes a line of this length.
  if (peer.input.size() > kLongestLine) {
    peer.fd.Reset();
    if (peer.met && !peer.ended) {
      Lose({peer.rank, peer.host, "is gone: it said what no rank says"});
    }
  }
}

bool RollCall::Greet(Peer& peer, absl::string_view line) {
  if (!absl::ConsumePrefix(&line, kGreeting)) return false;
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  uint32_t rank = 0;
  if (words.size() != 3 || words[0] != options_.token ||
      !absl::SimpleAtoi(words[1], &rank) || rank >= options_.world_size ||
      met_[rank]) {
    return false;
  }
  // The first connection that names a rank, with the token, has it; a second
  // one is refused.
  met_[rank] = true;
  peer.met = true;
  peer.rank = rank;
  peer.host = OneWord(words[2]);
  peer.heard = Clock::now();
  Write(peer, absl::StrCat(kGreeting, OneWord(options_.host), "\n"));
  // A rank that connects late is told what the others know: the line about a
  // missing rank is written once, to those that are met then.
  if (const auto absence = Missing()) Write(peer, MissingLine(*absence));
  return true;
}

void RollCall::Understand(Peer& peer, absl::string_view line) {
  peer.heard = Clock::now();
  // Any line is a sign of life.
  if (line == "here") return;
  if (line == "end" || absl::ConsumePrefix(&line, "end ")) {
    // Before Lose(), which then does not write to it.
    peer.ended = true;
    if (line != "end") {
      Lose({peer.rank, peer.host, absl::StrCat("has ended: ", line)});
    }
    peer.fd.Reset();
    return;
  }
  // Further kinds of lines go from rank 0 to the others only.
  if (role_ == Role::kKeeper) return;
  if (absl::ConsumePrefix(&line, kGreeting)) {
    peer.host = OneWord(line);
  } else if (absl::ConsumePrefix(&line, "missing ")) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 2));
    Absence absence;
    if (words.size() == 3 && absl::SimpleAtoi(words[0], &absence.rank)) {
      absence.host = words[1];
      absence.how = words[2];
      Lose(std::move(absence));
    }
  }
}

void RollCall::Write(Peer& peer, absl::string_view text) {
  if (!peer.fd.ok() || peer.unsent.size() + text.size() > kMostUnsent) return;
  absl::StrAppend(&peer.unsent, text);
  Flush(peer);
}

void RollCall::Flush(Peer& peer) {
  while (!peer.unsent.empty()) {
    const ssize_t n = send(peer.fd.get(), peer.unsent.data(),
                           peer.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    // An error is not handled here: the other side's last words may still have
    // to be read, and Read() finds the end of the connection behind them.
    if (n <= 0) return;
    peer.unsent.erase(0, static_cast<size_t>(n));
  }
}

void RollCall::CheckSilence(SteadyTime now) {
  const std::string how = absl::StrCat("is gone: no sign of life for ",
                                       absl::FormatDuration(options_.silence));
  for (auto& peer : peers_) {
    // Closed here, erased below: the walk goes on.
    if (!peer->met) {
      if (now - peer->heard > kGreetingTime) peer->fd.Reset();
    } else if (!peer->ended && now - peer->heard > silence_) {
      Lose({peer->rank, peer->host, how});
      peer->fd.Reset();
    }
  }
  std::erase_if(peers_, [](const auto& peer) { return !peer->fd.ok(); });
  // A rank that has never greeted has no peer: the time since the start counts
  // for it.
  if (role_ == Role::kKeeper && now - started_ > silence_) {
    for (uint32_t rank = 0; rank < options_.world_size; ++rank) {
      if (met_[rank]) continue;
      Lose({rank, "?", how});
      return;
    }
  }
}

void RollCall::Lose(Absence absence) {
  {
    MutexLock lock(mu_);
    // The first one counts: that further ranks go missing is mostly a
    // consequence.
    if (missing_.has_value()) return;
    missing_ = absence;
    changed_.NotifyAll();
  }
  // Only rank 0 has connections to the others. Callers of AwaitMissing() were
  // woken before anything was written.
  if (role_ == Role::kMember) return;
  const std::string line = MissingLine(absence);
  for (auto& peer : peers_) {
    if (peer->met && !peer->ended) Write(*peer, line);
  }
}

void RollCall::SayGoodbye() {
  std::string line = "end\n";
  {
    MutexLock lock(mu_);
    if (!why_.empty()) {
      line = absl::StrCat("end ", OneLine(why_, kLongestReason), "\n");
    }
  }
  for (auto& peer : peers_) {
    if (!peer->met || peer->ended) continue;
    Write(*peer, line);
    // The other side reads the words and then the end, and closes.
    shutdown(peer->fd.get(), SHUT_WR);
  }
  // Closing with unread input would reset the connection, and the words could
  // be lost: so input is read until the other side closes, or the time is over.
  const SteadyTime deadline = Clock::now() + kGoodbyeTime;
  for (auto& peer : peers_) {
    while (peer->met && peer->fd.ok()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      pollfd wait = {peer->fd.get(), POLLIN, 0};
      if (left.count() <= 0 ||
          poll(&wait, 1, static_cast<int>(left.count())) <= 0) {
        break;
      }
      char bytes[4096];
      if (recv(peer->fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT) <= 0) {
        peer->fd.Reset();
      }
    }
  }
  peers_.clear();
  listener_.Reset();
}

}  // namespace millrace
