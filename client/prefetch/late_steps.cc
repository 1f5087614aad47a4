#include "client/prefetch/late_steps.h"

#include <algorithm>

#include "client/prefetch/connection_doubt.h"
#include "client/prefetch/sequence.h"
#include "common/duration_text.h"
#include "common/logging.h"

namespace millrace::prefetch {
namespace {

using Call = CallTable::Call;
using Run = CallTable::Run;

// A server that owes a frame for this many hedge delays, and for at least a
// second, counts as silent. Choices: the delay is already above nearly all
// times of the server, and a second is above the pauses of a busy machine.
constexpr double kSilentDelays = 4;
constexpr absl::Duration kMinSilence = absl::Seconds(1);

// A silent call at the only server is requested over a new connection after so
// many step_timeout, twice as many for each new connection before, at most so
// often doubled.
constexpr int64_t kTimeoutsAlone = 2;
constexpr uint32_t kMaxDoublings = 5;

// How often a late step is logged.
constexpr absl::Duration kLateLogInterval = absl::Seconds(10);

}  // namespace

absl::Duration LateSteps::SilentAfter() const {
  if (!options_.hedge) return options_.step_timeout;
  return std::min(options_.step_timeout,
                  std::max(kMinSilence, kSilentDelays * hedge_->Delay()));
}

std::vector<Run> LateSteps::Owed(const Call& call, absl::Time now) const {
  std::vector<Run> runs;
  for (uint64_t i = 0; i < call.run.count; ++i) {
    const uint64_t number = call.run.first + i;
    if (!calls_->incomplete(number)) continue;
    // A call at a silent server covers nothing: it may never bring the step.
    const bool covered =
        calls_->at(number).calls > 1 &&
        std::any_of(calls_->calls().begin(), calls_->calls().end(),
                    [&](const auto& entry) {
                      const Call& other = entry.second;
                      // A second call at the same server covers nothing:
                      // both wait for one server.
                      return other.server != call.server &&
                             other.run.Contains(number) &&
                             !servers_->IsSilent(other.server, now);
                    });
    if (covered) continue;
    if (runs.empty() || runs.back().first + runs.back().count != number ||
        calls_->at(number).alone || calls_->at(number - 1).alone) {
      runs.push_back({number, 0});
    }
    ++runs.back().count;
  }
  return runs;
}

absl::Duration LateSteps::PatienceAlone(ServerId server) const {
  const uint32_t doublings =
      std::min(servers_->reconnects(server), kMaxDoublings);
  return options_.step_timeout * (kTimeoutsAlone << doublings);
}

bool LateSteps::IsCovered(CallId id, absl::Time now) const {
  return Owed(*calls_->Find(id), now).empty();
}

LateSteps::Silent LateSteps::FindSilent(absl::Time now) {
  const absl::Duration delay = hedge_->Delay();
  const absl::Duration silent_after = SilentAfter();
  Silent found;
  for (auto& [id, call] : calls_->calls()) {
    // A server serves the calls of a loader in the order of their batches, so
    // a call is not silent while frames of an earlier one arrive.
    const absl::Duration silence = now - call.silent_since();
    const bool call_silent = silence >= options_.step_timeout;
    const absl::Duration quiet = servers_->Quiet(call.server, now);
    // A later request was answered first, and nothing has come since: enough
    // to retry all steps of the server, once earlier hedges are paid for.
    const bool slow = hedge_->Solvent() && quiet >= delay &&
                      servers_->HasLostRace(call.server);
    if (!call_silent && quiet < silent_after && !slow) continue;
    // Retried once: Lose() clears this when the other call does not bring a
    // step.
    if (call.retried) continue;
    const std::vector<Run> owed = Owed(call, now);
    if (owed.empty()) {
      if (call_silent) found.covered.push_back(id);
      continue;
    }
    const absl::Duration patience =
        call_silent ? options_.step_timeout : std::min(delay, silent_after);
    const bool silent = call_silent || quiet >= silent_after;
    const bool alone =
        !servers_->PickOther(now, call.server, patience, silent).has_value();
    // Without another server there is nothing to do for a slow server. A silent
    // call is still worth the log line.
    if (alone && !call_silent) continue;
    const auto reconnect = [&found, server = call.server] {
      const bool listed =
          std::find(found.reconnect.begin(), found.reconnect.end(), server) !=
          found.reconnect.end();
      if (!listed) found.reconnect.push_back(server);
      return !listed;
    };
    if (servers_->Silent(call.server, now)) {
      const bool again = !alone && servers_->silences(call.server) > 1;
      if (again) reconnect();
      MR_LOG(WARNING) << "server " << servers_->AddressOf(call.server)
                      << " has sent nothing for "
                      << DurationText(std::max(quiet, silence)) << "; "
                      << PositionText(calls_->sequence().At(owed.front().first))
                      << " is outstanding"
                      << (alone ? ", and no other server is available"
                                : "; its outstanding steps are also requested "
                                  "from other servers")
                      << (again ? ". The server was silent before: later "
                                  "requests to it use a new connection"
                                : "");
    }
    if (alone) {
      const bool newest =
          servers_->OnNewestConnection(call.server, call.requested);
      if (newest && silence < PatienceAlone(call.server)) continue;
      if (newest && reconnect()) {
        MR_LOG(WARNING)
            << "server " << servers_->AddressOf(call.server)
            << " has sent nothing for " << DurationText(silence)
            << " and is the only server. It is slow (see its log and "
               "`millrace status`), or it hangs, or "
            << kProbablyDamaged
            << "; its outstanding steps are also requested over a "
               "new connection";
      }
    }
    // Set before the requests are made: Assign() takes it back when no server
    // can take one.
    call.retried = true;
    for (const Run& run : owed) {
      found.requests.push_back({.late = id,
                                .server = call.server,
                                .run = run,
                                .patience = patience,
                                .hedge = !silent,
                                .same_server = alone});
    }
  }
  return found;
}

std::optional<LateSteps::Request> LateSteps::FindLate(
    uint64_t next, absl::Duration consumer_step, absl::Time now) const {
  const absl::Duration delay = hedge_->Delay();
  if (hedge_->Affordable() == 0 || servers_->usable() < 2 ||
      delay == absl::InfiniteDuration()) {
    return std::nullopt;
  }
  Request found = {.patience = delay, .hedge = true};
  Run& run = found.run;
  for (uint64_t number = calls_->low(); number < calls_->end(); ++number) {
    if (!calls_->incomplete(number)) {
      if (run.count > 0) break;
      continue;
    }
    const CallTable::Step& step = calls_->at(number);
    // Steps with higher numbers were requested later and are needed later. A
    // step that the consumer comes to after another delay can wait until then.
    if (now - step.requested < delay ||
        static_cast<double>(number - std::min(next, number)) * consumer_step >
            delay) {
      break;
    }
    // Waiting steps are requested by Pump(), and a step that two calls owe is
    // hedged already.
    if (step.state != CallTable::State::kInFlight || step.calls != 1) {
      if (run.count > 0) break;
      continue;
    }
    const auto owing =
        std::find_if(calls_->calls().begin(), calls_->calls().end(),
                     [number](const auto& entry) {
                       return entry.second.run.Contains(number);
                     });
    // Does not happen: a step in flight has a call.
    if (owing == calls_->calls().end()) break;
    const Call& call = owing->second;
    // Its frames are arriving: no other server would be faster.
    const bool arriving = call.batch.begun() && call.number() == number &&
                          now - call.progress < delay / 4;
    if (arriving ||
        (run.count > 0 && (call.server != found.server || step.alone))) {
      if (run.count > 0) break;
      continue;
    }
    if (run.count == 0) {
      run.first = number;
      found.late = owing->first;
      found.server = call.server;
    }
    if (++run.count == hedge_->Affordable() || step.alone) break;
  }
  if (run.count == 0) return std::nullopt;
  const Sequence& sequence = calls_->sequence();
  run.count = std::min(run.count, sequence.LeftInEpoch(run.first));
  const auto other = servers_->PickOther(now, found.server, delay);
  if (!other.has_value()) return std::nullopt;
  // DEBUG: no user acts on a hedge, and `hedged_steps` counts them.
  MR_LOG_EVERY(DEBUG, kLateLogInterval)
      << PositionText(sequence.At(run.first)) << " is late at server "
      << servers_->AddressOf(found.server) << " ("
      << DurationText(now - calls_->at(run.first).requested)
      << " since its request, late after " << DurationText(delay)
      << "); requested from " << servers_->AddressOf(*other) << ", too";
  return found;
}

std::optional<ServerId> LateSteps::Assign(const Request& request,
                                          absl::Time now) {
  const auto other =
      request.same_server
          ? request.server
          : servers_->PickOther(now, request.server, request.patience,
                                !request.hedge);
  if (!other.has_value()) {
    // The next look may find a server: the call counts as not retried.
    calls_->Find(request.late)->retried = false;
    return std::nullopt;
  }
  // Paid for only when a server was found.
  if (request.hedge) hedge_->Spend(request.run.count);
  calls_->Request(request.run, now);
  return other;
}

}  // namespace millrace::prefetch
