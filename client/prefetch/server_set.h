// ServerSet remembers how each server of the endpoint has behaved, and chooses
// the server for the next request: a connected server with the fewest
// outstanding steps for its weight; among equals, the one that was sent the
// fewest steps for its weight. It prefers servers that did not just fail or
// fall silent.
//
// Weights make steps take equally long at all servers: batches are delivered in
// order, so a step at a slow server delays all later steps. While the steps of
// a server take longer than those of the best server, its weight falls, whether
// the server or its network is slow. Weights follow latency, not throughput: a
// server that gets few requests has a low throughput, and would get fewer
// still.
//
// What it is not: it sends no request.
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

namespace millrace::prefetch {

class ServerSet {
 public:
  // A server that was left out gets a request again after this time: it may
  // have been restarted with the right data.
  static constexpr absl::Duration kLeaveOutFor = absl::Seconds(30);

  // Clients with different `rotation` begin with different servers.
  explicit ServerSet(uint64_t jitter_seed, uint32_t rotation = 0)
      : jitter_(jitter_seed), rotation_(rotation) {}

  // Forgets servers that are no longer listed. New servers start without a
  // history.
  void Update(absl::Span<const ServerState> servers);

  // The server for the next request, or none. `avoid` is chosen only when no
  // other server is possible.
  std::optional<ServerId> Pick(absl::Time now, ServerId avoid) const;

  // As Pick(), but never `other_than` and never a server that is silent, is
  // left out, or has owed a frame for `patience`. `silent_too`: a silent server
  // is chosen when there is no other one. It may be back, which only a request
  // can show.
  std::optional<ServerId> PickOther(absl::Time now, ServerId other_than,
                                    absl::Duration patience,
                                    bool silent_too = false) const;

  void Asked(ServerId id, uint64_t steps, absl::Time now);
  // `steps` were delivered or given up.
  void Settled(ServerId id, uint64_t steps);
  // A frame came.
  void Heard(ServerId id, absl::Time now);
  // The server delivered a step `latency` after the request: forgets its
  // failures. True: it had been left out or silent.
  bool Progress(ServerId id, absl::Duration latency);
  // Another server, with a later request, delivered first.
  void LostRace(ServerId id);
  // No frame for too long: the server is avoided for kLeaveOutFor, or until it
  // delivers or is connected again. True: it was not silent before.
  bool Silent(ServerId id, absl::Time now);
  // A call that was started at `asked` ended as unavailable or damaged. The
  // next request waits for a delay that doubles from failure to failure (50 ms
  // to 2 s, with jitter). All calls that one lost connection ends are one
  // failure. Returns the number of failures in a row; 0: this one was counted
  // before.
  uint32_t Failed(ServerId id, absl::Time asked, absl::Time now,
                  absl::string_view why);
  // The server asked for a pause of `delay`.
  void Paused(ServerId id, absl::Time now, absl::Duration delay);
  // The server does not serve this plan. True: it did until now.
  bool LeaveOut(ServerId id, absl::Time now, absl::string_view why);
  // A call ended in a way that makes its connection suspect. Returns the number
  // of such ends in a row, without a batch or a new connection in between.
  uint32_t Suspected(ServerId id);
  // Calls from now on go over a new connection, because of how earlier calls
  // ended. A silent server remains silent.
  void Reconnected(ServerId id, absl::Time now);

  // Whether a server other than `id` may serve the plan.
  bool OthersMayServe(ServerId id) const;

  // Time for which the server has owed a frame; 0: it owes none.
  absl::Duration Quiet(ServerId id, absl::Time now) const;
  // The server has lost a race and sent nothing since.
  bool HasLostRace(ServerId id) const;
  bool IsSilent(ServerId id, absl::Time now) const;
  // How often in a row the server has fallen silent, without a batch in
  // between.
  uint32_t silences(ServerId id) const;
  // Number of Reconnected() since the server has last delivered.
  uint32_t reconnects(ServerId id) const;
  // Whether a call that was started at `started` is on the newest connection.
  bool OnNewestConnection(ServerId id, absl::Time started) const;
  // The server's share of all requested steps, by weight, in [0, 1]. 0: it is
  // left out, and a request only checks whether it serves the plan again.
  double Share(ServerId id) const;

  // Number of servers that are connected and not left out.
  uint32_t usable() const;
  // Whether a usable server has owed no frame for `patience`.
  bool AnyAnswers(absl::Time now, absl::Duration patience) const;
  std::string AddressOf(ServerId id) const;
  // "10.0.0.1:7001: connection refused; 10.0.0.2:7001: not connected".
  std::string Describe() const;

 private:
  struct Server {
    ServerState state;
    uint64_t outstanding = 0;
    uint64_t last_asked = 0;  // value of asks_ at the last request
    uint64_t preference = 0;  // among servers without a request
    // Time of the last frame, or when the server began to owe one.
    absl::Time heard = absl::InfinitePast();
    bool lost_race = false;  // since `heard`
    // Seconds from the request of a step to its delivery, a running mean. 0:
    // unknown.
    double latency = 0;
    double weight = 1;  // in [kMinWeight, 1]
    // Requested steps / weight: start-time fair queueing (Goyal, Vin, Cheng,
    // SIGCOMM 1996).
    double asked_by_weight = 0;
    uint32_t failures = 0;  // in a row
    absl::Time failed_at;   // the last of them
    absl::Time silent_until = absl::InfinitePast();
    uint32_t silences = 0;    // in a row
    uint32_t suspicions = 0;  // in a row
    uint32_t reconnects = 0;  // in a row
    absl::Time reconnected_at = absl::InfinitePast();
    bool reconnecting = false;  // the new connection is not reported yet
    bool left_out = false;
    absl::Time not_before = absl::InfinitePast();
    std::string why;  // of the last failure
  };

  // The minimum latency of the usable servers; 0: unknown.
  double BestLatency() const;
  // Forgets latency and weight.
  static void ForgetSpeed(Server* server);
  Server* Find(ServerId id);
  const Server* Find(ServerId id) const;
  // A random number in [0, 1).
  double Jitter();

  uint64_t jitter_;
  const uint32_t rotation_;
  uint64_t asks_ = 0;
  // asked_by_weight of the last requested server, before that request.
  double asked_by_weight_ = 0;
  std::vector<Server> servers_;  // few: searched one by one
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_SERVER_SET_H_
