// PeerMonitor tells every rank of a job which rank is missing, and why.
//
// It is not a transport or a rendezvous: it moves no data, and the ranks meet
// in c10d's store. A collective call notices by itself that a rank is missing;
// it cannot name the rank, and a key in the store that is no longer refreshed
// shows the loss only after a timeout.
//
// Topology. Every rank keeps one TCP connection to rank 0. Rank 0 listens on a
// free port and publishes the port and a random token through the store. It
// forwards the name of the first missing rank to all other ranks.
//
// Protocol. Lines of text, each ended by "\n":
//   rank r to 0:  handshake "millrace-peer-1 TOKEN RANK HOST", then "here" as a
//                 heartbeat, at last "end" or "end WHY"
//   rank 0 to r:  handshake "millrace-peer-1 HOST", then the same lines, and
//                 "missing RANK HOST HOW"
// A heartbeat is sent each second, or four times per `heartbeat_timeout` when
// that is more often. Any line counts as a heartbeat. Rank 0 closes a
// connection without a valid handshake: one that does not name the token, or
// names a rank that is connected, was connected, or does not exist.
//
// States of a peer: connected, met (handshake done), then ended or missing,
// both for good. What ends a peer:
//   a closed socket without "end"  the process was killed or crashed. The
//                                  kernel closes the sockets of a dead process,
//                                  so the others know at once.
//   "end WHY"                      the process failed and says why.
//   "end"                          the process finished. No rank is missing.
//   no line for heartbeat_timeout  the machine or the network is gone: nothing
//                                  closes the socket. The same holds for a rank
//                                  that never did its handshake.
// The first missing rank is kept and never replaced: when further ranks go
// missing, that is mostly a consequence.
//
// Threads. Missing() and AwaitMissing() from any thread, the rest from the
// owner's. One thread, owned and joined by End() or the destructor, does all
// reading and writing. End() wakes it through an eventfd; it says goodbye and
// returns within about a second: rank 0 first waits up to half a second for
// ranks that are just connecting, so that they learn why it ends, and each side
// reads until the other side closes, because closing a socket with unread input
// resets the connection and the last line could be lost.
//
//   auto monitor = PeerMonitor::Listen({.rank = 0, ...}, false);    // rank 0
//   auto monitor = PeerMonitor::Connect({.rank = 1, ...}, "10.0.0.7", port, t);
//   ... a collective call fails:
//   if (auto missing = (*monitor)->AwaitMissing(absl::Seconds(3))) ...
//   (*monitor)->End("");

#ifndef MILLRACE_TRAINER_DDP_PEER_MONITOR_H_
#define MILLRACE_TRAINER_DDP_PEER_MONITOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/thread.h"
#include "common/unique_fd.h"

namespace millrace::ddp {

class PeerMonitor {
 public:
  struct MissingRank {
    uint32_t rank = 0;
    std::string host;
    // "is gone: no heartbeat for 2m", "has ended: the loss is nan ..."
    std::string how;

    // "rank 3 of 4 on host X is gone: ..."
    std::string Sentence(uint32_t world_size) const;
  };
  struct Options {
    uint32_t rank = 0;
    uint32_t world_size = 1;
    std::string host;   // name of this machine
    std::string token;  // letters and digits; the same on all ranks
    // Time without a heartbeat after which a rank is missing. Above 0.
    absl::Duration heartbeat_timeout = absl::Minutes(2);
    // Called about once a second while a rank is missing, on this object's
    // thread and without locks. May end the process. May be empty.
    std::function<void(const MissingRank&)> while_missing;
  };

  // Rank 0. Listens on all addresses, or on the loopback only. Unavailable: no
  // address can be listened on.
  static absl::StatusOr<std::unique_ptr<PeerMonitor>> Listen(
      const Options& options, bool loopback);
  // The other ranks. Unavailable: rank 0 cannot be reached within `timeout`.
  static absl::StatusOr<std::unique_ptr<PeerMonitor>> Connect(
      const Options& options, const std::string& address, uint16_t port,
      absl::Duration timeout);
  ~PeerMonitor();
  PeerMonitor(const PeerMonitor&) = delete;
  PeerMonitor& operator=(const PeerMonitor&) = delete;

  uint16_t port() const { return port_; }  // of Listen()

  // The first missing rank, if any.
  std::optional<MissingRank> Missing() const;
  // The same. Waits up to `timeout` for one: a collective call may fail before
  // its reason is known here.
  std::optional<MissingRank> AwaitMissing(absl::Duration timeout) const;

  // Leaves the job. An empty `why` says that this rank finished; otherwise the
  // other ranks report this rank as missing with `why`. Idempotent.
  void End(absl::string_view why);

 private:
  struct Peer;

  explicit PeerMonitor(const Options& options);
  absl::Status Start();

  // All of these on the thread.
  void Run();
  void Poll(SteadyTime until);
  void Accept();
  void Read(Peer& peer);
  void HandleLine(Peer& peer, absl::string_view line);
  bool Handshake(Peer& peer, absl::string_view line);
  void CheckHeartbeats(SteadyTime now);
  void SetMissing(MissingRank missing);
  void SayGoodbye();

  // Constant once the thread runs.
  const Options options_;
  const std::chrono::steady_clock::duration heartbeat_timeout_;
  // Time between two heartbeats.
  const std::chrono::steady_clock::duration beat_;
  uint16_t port_ = 0;
  // An eventfd, written by End() and read by the thread.
  const UniqueFd wake_;

  // Used by the thread alone, once it runs. A peer whose descriptor is closed
  // is erased before the next poll().
  UniqueFd listener_;
  std::vector<std::unique_ptr<Peer>> peers_;
  // One entry for each rank: this side expects no further connection from it.
  // Never cleared, so a missing rank cannot come back. Ranks other than 0
  // expect nobody.
  std::vector<bool> met_;
  SteadyTime started_;
  // accept() found no room and that was logged.
  bool accept_fails_ = false;
  // SayGoodbye() was called: what happens to a peer is no news.
  bool leaving_ = false;

  // Guards what the thread shares with callers. Not held while the thread reads
  // or writes a socket.
  mutable Mutex mu_;
  mutable CondVar changed_;
  std::optional<MissingRank> missing_ MR_GUARDED_BY(mu_);  // set once
  // End() was called; why_ is the argument of the first call.
  bool ending_ MR_GUARDED_BY(mu_) = false;
  std::string why_ MR_GUARDED_BY(mu_);

  // Last: it uses all of the above.
  NamedThread thread_;
};

}  // namespace millrace::ddp

#endif  // MILLRACE_TRAINER_DDP_PEER_MONITOR_H_
