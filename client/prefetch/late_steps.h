// LateSteps decides, from the outstanding requests and the time, which steps
// are requested from a second server and which calls are given up:
//
//   late step      It takes longer than HedgePolicy says and the consumer needs
//                  it soon: a hedge, which a budget pays for.
//   silent server  It has owed a frame for 4 of these delays and at least 1 s,
//                  or for step_timeout: all that it owes is retried on other
//                  servers, whatever the budget says.
//   slow server    It has lost a race and owes a frame for one delay: all that
//                  it owes is hedged, unless the budget is in debt.
//   silent call    No frame of it for step_timeout, though its server may send
//                  frames of later calls: retried as if the server were silent.
//                  A call whose steps are all owed by other calls is given up.
//                  A call behind an earlier one at its server waits for its
//                  turn, and its time counts from the last frame of that one.
//   silent connection
//                  A server is silent for the second time in a row: it gets a
//                  new connection. Where there is no other server, a call that
//                  is silent for 2 step_timeout is requested once more from the
//                  same server over a new connection; for each further one the
//                  time doubles. The first call continues: a server that is
//                  slow loses no work.
//
// It starts and ends no call: its owner acts on what it returns. It marks
// servers as silent (ServerSet) and calls as retried (CallTable), pays from the
// budget (HedgePolicy) and writes log lines.
//
// No thread, no clock. Not thread-safe.
//
//   const LateSteps::Silent silent = late.FindSilent(now);
//   for (CallId id : silent.covered) if (late.IsCovered(id, now)) GiveUp(id);
//   for (const LateSteps::Request& request : silent.requests) {
//     if (const auto server = late.Assign(request, now)) {
//       StartCall(*server, request.run, request.hedge);
//     }
//   }

#ifndef MILLRACE_CLIENT_PREFETCH_LATE_STEPS_H_
#define MILLRACE_CLIENT_PREFETCH_LATE_STEPS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "client/prefetch/call_table.h"
#include "client/prefetch/hedge_policy.h"
#include "client/prefetch/server_set.h"
#include "client/prefetch/transport.h"

namespace millrace::prefetch {

class LateSteps {
 public:
  struct Options {
    // A call that is silent for this time is retried in any case.
    absl::Duration step_timeout = absl::Seconds(15);
    // Whether the delay of HedgePolicy counts, too.
    bool hedge = true;
  };

  // A run to request from one more server.
  struct Request {
    CallId late = 0;      // the call that owes it
    ServerId server = 0;  // of that call
    CallTable::Run run;
    // A server that has owed a frame for this time is not chosen.
    absl::Duration patience;
    // True: the budget pays. False: a retry, because the server or the call is
    // silent.
    bool hedge = false;
    // There is no other server: over a newer connection to `server`.
    bool same_server = false;

    friend bool operator==(const Request&, const Request&) = default;
  };

  struct Silent {
    // Calls that are silent, and whose outstanding steps other calls owe.
    std::vector<CallId> covered;
    // Servers that need a new connection, before the requests.
    std::vector<ServerId> reconnect;
    std::vector<Request> requests;
  };

  // None is owned; all outlive this.
  LateSteps(const Options& options, CallTable* calls, ServerSet* servers,
            HedgePolicy* hedge)
      : options_(options), calls_(calls), servers_(servers), hedge_(hedge) {}

  // A server that has owed a frame for this time counts as silent.
  absl::Duration SilentAfter() const;

  // Silent servers and calls, and slow servers. `covered` come first: to give
  // one up changes who owes what. Then `reconnect`.
  Silent FindSilent(absl::Time now);

  // Other calls, at servers that are not silent, owe all that the call owes. Of
  // two calls that cover each other, the second one is no longer covered once
  // the first is given up.
  bool IsCovered(CallId id, absl::Time now) const;

  // The first steps in a row that are late at one server, and that a consumer
  // that takes `consumer_step` for a batch and is at `next` needs before
  // another delay has passed. None where no second server can take them now.
  std::optional<Request> FindLate(uint64_t next, absl::Duration consumer_step,
                                  absl::Time now) const;

  // The server to start a call for `request` at. Its steps are then recorded as
  // requested once more, and a hedge is paid for. None: no server can take it
  // now.
  std::optional<ServerId> Assign(const Request& request, absl::Time now);

 private:
  // The runs that the call owes and that no call at a server that is not silent
  // owes, too.
  std::vector<CallTable::Run> Owed(const CallTable::Call& call,
                                   absl::Time now) const;
  // A call at the only server that is silent for this time is requested once
  // more over a new connection.
  absl::Duration PatienceAlone(ServerId server) const;

  const Options options_;
  CallTable* const calls_;
  ServerSet* const servers_;
  HedgePolicy* const hedge_;
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_LATE_STEPS_H_
