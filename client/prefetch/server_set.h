// ServerSet remembers how each server of the endpoint has behaved and chooses
// the one to ask next: a connected one with the fewest steps outstanding for
// its weight, of several the one that has had least for its weight, and rather
// one that did not just fail or fall silent.
//
// Weights make steps take equally long everywhere: batches come out in order,
// so a step at a slow server holds up all that follow. The weight of a server
// whose steps take longer than at the best one falls until they do not, whether
// it is slow itself or its network is. They follow latency, not throughput: a
// server that was asked for little at a time would look slow by its throughput,
// and get still less.
//
// Pure bookkeeping: no thread, no clock, no I/O. Not thread-safe.
//
//   if (auto server = servers.Pick(now, step.avoid)) {
//     servers.Asked(*server, count, now);
//   }

#ifndef MILLRACE_CLIENT_PREFETCH_SERVER_SET_H_
#define MILLRACE_CLIENT_PREFETCH_SERVER_SET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/prefetch/transport.h"

namespace millrace {

class ServerSet {
 public:
  // A server that was left out is asked again after so long: it may have been
  // restarted with the right data.
  static constexpr absl::Duration kLeaveOutFor = absl::Seconds(30);

  // Clients with other `rotation` begin with other servers.
  explicit ServerSet(uint64_t jitter_seed, uint32_t rotation = 0)
      : jitter_(jitter_seed), rotation_(rotation) {}

  // Servers that are no longer listed are forgotten, new ones start clean.
  void Update(absl::Span<const ServerState> servers);

  // The server to ask now, or none. `avoid` is only taken when no other can
  // be asked.
  std::optional<ServerId> Pick(absl::Time now, ServerId avoid) const;

  // As Pick(), but never `other_than`, one that is silent, left out, or has
  // owed a frame for `patience`. `silent_too`: rather one that was silent than
  // none. It may be back, and who is asked for nothing cannot show that.
  std::optional<ServerId> PickOther(absl::Time now, ServerId other_than,
                                    absl::Duration patience,
                                    bool silent_too = false) const;

  void Asked(ServerId id, uint64_t steps, absl::Time now);
  // Steps that were delivered, or given up.
  void Settled(ServerId id, uint64_t steps);
  // A frame came.
  void Heard(ServerId id, absl::Time now);
  // It delivers, a step that was asked for `latency` ago: forgets its failures.
  // True when it had been left out or silent.
  bool Progress(ServerId id, absl::Duration latency);
  // Another server that was asked later delivered first.
  void LostRace(ServerId id);
  // No frame for too long: avoided for kLeaveOutFor, or until it delivers or
  // is connected anew. True when it was not silent before.
  bool Silent(ServerId id, absl::Time now);
  // Unavailable or damaged, of a call of `asked`: not asked again before a
  // delay that doubles from failure to failure (50 ms to 2 s, with jitter). The
  // calls that one lost connection ends are one failure. Returns how many in a
  // row there are with this one; 0: it was counted before.
  uint32_t Failed(ServerId id, absl::Time asked, absl::Time now,
                  absl::string_view why);
  // It has asked for a pause.
  void Paused(ServerId id, absl::Time now, absl::Duration delay);
  // It does not serve this plan. True when it did until now.
  bool LeaveOut(ServerId id, absl::Time now, absl::string_view why);
  // A call ended in a way that makes its connection suspect. Returns how many
  // did so in a row, without a batch or a new connection in between.
  uint32_t Suspected(ServerId id);
  // Calls from now on go over a new connection, because of how those before
  // ended. It stays silent for as long as it was to be.
  void Reconnected(ServerId id, absl::Time now);

  // Whether a server other than `id` may serve the plan.
  bool OthersMayServe(ServerId id) const;

  // How long it has owed a frame; 0 for one that owes nothing.
  absl::Duration Quiet(ServerId id, absl::Time now) const;
  // It has lost a race and sent nothing since.
  bool HasLostRace(ServerId id) const;
  bool IsSilent(ServerId id, absl::Time now) const;
  // How often in a row it has fallen silent, without a batch in between.
  uint32_t silences(ServerId id) const;
  // How many Reconnected() there were since it has last delivered.
  uint32_t reconnects(ServerId id) const;
  // Whether a call that was started then is on its newest connection.
  bool OnNewestConnection(ServerId id, absl::Time started) const;
  // Its part of what is asked for, by weight, in [0, 1]. 0: it is asked to see
  // whether it serves the plan again.
  double Share(ServerId id) const;

  // Connected and not left out.
  uint32_t usable() const;
  // One of these has not owed a frame for `patience`.
  bool AnyAnswers(absl::Time now, absl::Duration patience) const;
  std::string AddressOf(ServerId id) const;
  // "10.0.0.1:7001: connection refused; 10.0.0.2:7001: not connected".
  std::string Describe() const;

 private:
  struct Server {
    ServerState state;
    uint64_t outstanding = 0;
    uint64_t last_asked = 0;  // by asks_
    uint64_t preference = 0;  // among servers that were never asked
    absl::Time heard = absl::InfinitePast();  // or began to owe a frame
    bool lost_race = false;                   // since then
    // Seconds from asking for a step to having it, a running mean. 0: unknown.
    double latency = 0;
    double weight = 1;  // in [kLeastWeight, 1]
    // Steps asked for / weight, as of start-time fair queueing (Goyal, Vin,
    // Cheng, SIGCOMM 1996).
    double asked_by_weight = 0;
    uint32_t failures = 0;  // in a row
    absl::Time failed_at;   // the last of them
    absl::Time silent_until = absl::InfinitePast();
    uint32_t silences = 0;    // in a row
    uint32_t suspicions = 0;  // in a row
    uint32_t reconnects = 0;  // in a row
    absl::Time reconnected_at = absl::InfinitePast();
    bool reconnecting = false;  // the new connection was not reported yet
    bool left_out = false;
    absl::Time not_before = absl::InfinitePast();
    std::string why;  // of the last failure
  };

  // The least latency of a server that is in use; 0: unknown.
  double BestLatency() const;
  // Forgets how fast it was.
  static void ForgetSpeed(Server* server);
  Server* Find(ServerId id);
  const Server* Find(ServerId id) const;
  // A number in [0, 1) that differs from call to call.
  double Jitter();

  uint64_t jitter_;
  const uint32_t rotation_;
  uint64_t asks_ = 0;
  double asked_by_weight_ = 0;   // of the server that was asked last, before
  std::vector<Server> servers_;  // few: searched one by one
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_SERVER_SET_H_
