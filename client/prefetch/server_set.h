// ServerSet remembers how each server of the endpoint has behaved and chooses
// the one to ask next: a connected one with the fewest steps outstanding, of
// several the one that was asked longest ago, and rather one that did not just
// fail or fall silent.
//
// Pure bookkeeping: no thread, no clock, no I/O. Not thread-safe.
//
//   if (auto server = servers.Pick(now, step.avoid)) {
//     servers.Asked(*server, count);
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

  // As Pick(), but never `other_than` nor a silent one.
  std::optional<ServerId> PickOther(absl::Time now, ServerId other_than) const;

  void Asked(ServerId id, uint64_t steps);
  // Steps that were delivered, or given up.
  void Settled(ServerId id, uint64_t steps);
  // It delivers: forgets its failures.
  void Progress(ServerId id);
  // No frame for too long: avoided for kLeaveOutFor, or until it delivers or
  // is connected anew.
  void Silent(ServerId id, absl::Time now);
  // Unavailable: not asked again before a delay that doubles from failure to
  // failure (50 ms to 2 s, with jitter). True at the first of a row.
  bool Failed(ServerId id, absl::Time now, absl::string_view why);
  // It has asked for a pause.
  void Paused(ServerId id, absl::Time now, absl::Duration delay);
  // It does not serve this plan. True when it did until now.
  bool LeaveOut(ServerId id, absl::Time now, absl::string_view why);

  // Whether a server other than `id` may serve the plan.
  bool OthersMayServe(ServerId id) const;

  // Connected and not left out.
  uint32_t usable() const;
  std::string AddressOf(ServerId id) const;
  // "10.0.0.1:7001: connection refused; 10.0.0.2:7001: not connected".
  std::string Describe() const;

 private:
  struct Server {
    ServerState state;
    uint64_t outstanding = 0;
    uint64_t last_asked = 0;  // by asks_
    uint64_t preference = 0;  // among servers that were never asked
    uint32_t failures = 0;    // in a row
    absl::Time silent_until = absl::InfinitePast();
    bool left_out = false;
    absl::Time not_before = absl::InfinitePast();
    std::string why;  // of the last failure
  };

  Server* Find(ServerId id);
  const Server* Find(ServerId id) const;
  // A number in [0, 1) that differs from call to call.
  double Jitter();

  uint64_t jitter_;
  const uint32_t rotation_;
  uint64_t asks_ = 0;
  std::vector<Server> servers_;  // few: searched one by one
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_SERVER_SET_H_
