// RollCall tells the ranks of a job which rank is missing. Every rank keeps a
// connection to rank 0 and says each second that it is there. A process that
// dies is noticed at once, because its connection closes without a word; a
// machine that is gone after `silence`; and a rank that ends because of an
// error says so and why. Rank 0 passes the name on to all others.
//
// What it is not: it moves no data and joins nobody; collective calls find out
// by themselves that a rank is missing, but not which.
//
// Missing() and AwaitMissing() from any thread, the rest from the owner's. Owns
// one thread, joined by End() or the destructor. Lines of text go over TCP:
//   rank r to 0:  "millrace-roll-1 TOKEN RANK HOST", then "here" again and
//                 again, at last "end" or "end WHY"
//   rank 0 to r:  "millrace-roll-1 HOST", then the same, and
//                 "missing RANK HOST HOW"
// A connection that does not name the token, which the ranks share in another
// way, is refused. A lost rank is never found again.
//
//   auto roll = RollCall::Keep({.rank = 0, ...});       // rank 0
//   auto roll = RollCall::Answer({.rank = 1, ...}, "10.0.0.7", port);
//   ... a collective call fails:
//   if (auto absence = (*roll)->AwaitMissing(absl::Seconds(3))) ...
//   (*roll)->End("");

#ifndef MILLRACE_TRAINER_DDP_ROLL_CALL_H_
#define MILLRACE_TRAINER_DDP_ROLL_CALL_H_

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

namespace millrace {

class RollCall {
 public:
  struct Absence {
    uint32_t rank = 0;
    std::string host;
    // "is gone: no sign of life for 2m", "has ended: the loss is nan ..."
    std::string how;

    // "rank 3 of 4 on host X is gone: ..."
    std::string Sentence(uint32_t world_size) const;
  };
  struct Options {
    uint32_t rank = 0;
    uint32_t world_size = 1;
    std::string host;   // name of this machine
    std::string token;  // letters and digits; the same on all ranks
    // Time without a sign of life after which a rank is gone. Above 0.
    absl::Duration silence = absl::Minutes(2);
    // Called about once a second while a rank is missing, on this object's
    // thread. May be empty.
    std::function<void(const Absence&)> while_missing;
  };

  // Rank 0's side; listens on all addresses, or on the loopback only.
  // Unavailable: cannot listen.
  static absl::StatusOr<std::unique_ptr<RollCall>> Keep(const Options& options,
                                                        bool loopback);
  // The other ranks' side. Unavailable: rank 0 cannot be reached within
  // `timeout`.
  static absl::StatusOr<std::unique_ptr<RollCall>> Answer(
      const Options& options, const std::string& address, uint16_t port,
      absl::Duration timeout);

  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  uint16_t port() const { return port_; }  // of Keep()

  // The first rank that went missing, if any.
  std::optional<Absence> Missing() const;
  // The same; waits up to `timeout` for one: a collective call may fail before
  // its reason is known here.
  std::optional<Absence> AwaitMissing(absl::Duration timeout) const;

  // Leaves: says to the others that this rank ends, and why when it ends
  // because of an error. Idempotent.
  void End(absl::string_view why);

 private:
  struct Peer;
  enum class Role { kKeeper, kMember };

  RollCall(const Options& options, Role role, UniqueFd listener, uint16_t port);
  absl::Status Start();

  // All of these on the thread.
  void Run();
  void Accept();
  void HoldAccepts(int error);
  void Read(Peer& peer);
  void Understand(Peer& peer, absl::string_view line);
  bool Greet(Peer& peer, absl::string_view line);
  void Write(Peer& peer, absl::string_view text);
  void Flush(Peer& peer);
  void CheckSilence(SteadyTime now);
  void Lose(Absence absence);
  void SayGoodbye();

  // Constant once the thread runs. `beat_` is the time between two signs of
  // life: a second, or a quarter of `silence` if that is less.
  const Options options_;
  const Role role_;
  const std::chrono::steady_clock::duration silence_;
  const std::chrono::steady_clock::duration beat_;
  uint16_t port_ = 0;
  // An eventfd; written by End(), read by the thread.
  UniqueFd wake_;

  // Touched by the thread alone, once it runs. Peers whose descriptor is closed
  // are erased before the next poll().
  UniqueFd listener_;
  std::vector<std::unique_ptr<Peer>> peers_;
  // Of each rank: it has greeted. Never cleared, so a rank that was lost cannot
  // come back.
  std::vector<bool> met_;
  SteadyTime started_;
  // Of the listener: no accept() before, and whether the last one found no room
  // for a connection (it was logged).
  SteadyTime accept_from_;
  bool accept_fails_ = false;

  // Guards what the thread shares with callers. Not held while anything is read
  // or written.
  mutable Mutex mu_;
  mutable CondVar changed_;
  // The first rank that went missing. Set once, never changed.
  std::optional<Absence> missing_ MR_GUARDED_BY(mu_);
  // End() was called; why_ is that of the first call.
  bool ending_ MR_GUARDED_BY(mu_) = false;
  std::string why_ MR_GUARDED_BY(mu_);

  // Last: it uses all of the above.
  NamedThread thread_;
};

// This machine's name, for messages.
std::string HostName();

}  // namespace millrace

#endif  // MILLRACE_TRAINER_DDP_ROLL_CALL_H_
