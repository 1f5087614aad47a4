#include "client/prefetch/server_set.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/prefetch/retry_schedules.h"

namespace millrace::prefetch {
namespace {

// Even the slowest server keeps this weight, so that the client notices when it
// becomes faster.
constexpr double kMinWeight = 1.0 / 16;
// Weight of a new latency in the running mean.
constexpr double kLatencyGain = 0.25;
// The weight follows the logarithm of the latencies' ratio with this gain,
// divided by the outstanding steps: the effect of a change is seen only when
// they are delivered.
constexpr double kWeightGain = 0.6;
// The weight also returns towards 1, so that equal servers do not drift apart.
constexpr double kWeightRelease = 0.02;
// Latencies count as at most this multiple of the best one.
constexpr double kMaxRatio = 8;

}  // namespace

// Invariants between two events of the transport:
//
// - Server::outstanding is the number of steps that Asked() has added and
//   Settled() has not taken away since the server was listed. A server owes a
//   frame while outstanding is not 0; only then does `heard` have a meaning.
// - While a server is listed, only Progress() ends left_out. Pick() chooses the
//   server again after not_before; PickOther() does not.
// - A server is silent until silent_until. Before that, Progress() ends the
//   silence, or a new connection that the client did not ask for.
// - kMinWeight <= weight <= 1, so a load can be divided by the weight.
//
// Calls outlive the listing of their server, so a method may get the id of a
// server that has no record any more.
//
// The set has no lock, because only the transport's events use it, and they
// come one at a time.

void ServerSet::Update(absl::Span<const ServerState> servers) {
  std::vector<Server> updated;
  updated.reserve(servers.size());
  for (const ServerState& state : servers) {
    Server* known = Find(state.id);
    Server server = known == nullptr ? Server() : std::move(*known);
    if (state.ready) {
      // A new connection that the client asked for, because the server is
      // silent, proves nothing about the server. Reconnected() has set the
      // flag; the first report of a connection after that clears it, so a later
      // connection counts again.
      const bool asked_for = std::exchange(server.reconnecting, false);
      if (!server.state.ready && !asked_for) {
        server.silent_until = absl::InfinitePast();
        server.silences = 0;
        ForgetSpeed(&server);
      }
    }
    server.state = state;
    // The place in the list, rotated: clients with different rotation_ prefer
    // different servers while no server has a request.
    server.preference =
        (updated.size() + servers.size() - rotation_ % servers.size()) %
        servers.size();
    updated.push_back(std::move(server));
  }
  servers_ = std::move(updated);
}

std::optional<ServerId> ServerSet::Pick(absl::Time now, ServerId avoid) const {
  const Server* best = nullptr;
  // The lowest rank wins. `avoid` and silent servers come after all others,
  // whatever their load. last_asked makes equal servers take turns, and is
  // equal only for servers that never had a request: `preference` decides
  // there.
  const auto rank = [this, avoid, now](const Server& server) {
    return std::make_tuple(server.state.id == avoid, now < server.silent_until,
                           server.outstanding / server.weight,
                           std::max(server.asked_by_weight, asked_by_weight_),
                           server.last_asked, server.preference);
  };
  for (const Server& server : servers_) {
    // left_out is not checked: after not_before, a request is the only way to
    // find out whether the server serves the plan now.
    if (!server.state.ready || now < server.not_before) continue;
    if (best == nullptr || rank(server) < rank(*best)) best = &server;
  }
  if (best == nullptr) return std::nullopt;
  return best->state.id;
}

std::optional<ServerId> ServerSet::PickOther(absl::Time now,
                                             ServerId other_than,
                                             absl::Duration patience,
                                             bool silent_too) const {
  const Server* best = nullptr;
  const auto rank = [now](const Server& server) {
    return std::make_pair(now < server.silent_until,
                          server.outstanding / server.weight);
  };
  for (const Server& server : servers_) {
    if (!server.state.ready || server.left_out || now < server.not_before ||
        server.state.id == other_than ||
        (server.outstanding > 0 && now - server.heard >= patience) ||
        (now < server.silent_until && !silent_too)) {
      continue;
    }
    if (best == nullptr || rank(server) < rank(*best)) best = &server;
  }
  if (best == nullptr) return std::nullopt;
  return best->state.id;
}

void ServerSet::Asked(ServerId id, uint64_t steps, absl::Time now) {
  Server* server = Find(id);
  if (server == nullptr) return;
  // The server begins to owe a frame now. The time before, in which it had
  // nothing to send, does not count as quiet.
  if (server->outstanding == 0) server->heard = now;
  server->outstanding += steps;
  server->last_asked = ++asks_;
  // A server that had no request for a while does not save up a claim.
  asked_by_weight_ = std::max(asked_by_weight_, server->asked_by_weight);
  server->asked_by_weight =
      asked_by_weight_ + static_cast<double>(steps) / server->weight;
}

void ServerSet::Settled(ServerId id, uint64_t steps) {
  if (Server* server = Find(id)) {
    // A call settles as many steps as it asked for. The bound is for a
    // transport that lists a removed server again under its old id.
    server->outstanding -= std::min(steps, server->outstanding);
  }
}

void ServerSet::Heard(ServerId id, absl::Time now) {
  if (Server* server = Find(id)) {
    server->heard = now;
    server->lost_race = false;
  }
}

bool ServerSet::Progress(ServerId id, absl::Duration latency) {
  Server* server = Find(id);
  if (server == nullptr) return false;
  const bool was_out = std::exchange(server->left_out, false);
  server->failures = 0;
  server->silences = 0;
  server->suspicions = 0;
  server->reconnects = 0;
  server->why.clear();
  if (server->silent_until != absl::InfinitePast()) {
    // The time of its silence says nothing about its speed now.
    server->silent_until = absl::InfinitePast();
    ForgetSpeed(server);
    return true;
  }
  const double seconds = absl::ToDoubleSeconds(latency);
  if (seconds <= 0) return was_out;
  const double best = BestLatency();
  const double bounded =
      best > 0 ? std::min(seconds, kMaxRatio * best) : seconds;
  server->latency =
      server->latency > 0
          ? server->latency + kLatencyGain * (bounded - server->latency)
          : bounded;
  const double gain = kWeightGain / static_cast<double>(std::max<uint64_t>(
                                        2, server->outstanding));
  const double change = gain * std::log(BestLatency() / server->latency) -
                        kWeightRelease * gain * std::log(server->weight);
  server->weight =
      std::clamp(server->weight * std::exp(change), kMinWeight, 1.0);
  return was_out;
}

void ServerSet::LostRace(ServerId id) {
  if (Server* server = Find(id)) server->lost_race = true;
}

bool ServerSet::Silent(ServerId id, absl::Time now) {
  Server* server = Find(id);
  if (server == nullptr) return false;
  // Called for each silent call of the server. Only the first call that finds
  // the silence counts; the others extend it.
  const bool was_heard = now >= server->silent_until;
  if (was_heard) ++server->silences;
  server->silent_until = now + kLeaveOutFor;
  server->why = "silent";
  return was_heard;
}

uint32_t ServerSet::Failed(ServerId id, absl::Time asked, absl::Time now,
                           absl::string_view why) {
  Server* server = Find(id);
  if (server == nullptr) return 0;
  // A call that was started before the last failure may end for the same
  // reason, such as a lost connection. It counts as the same failure.
  if (server->failures > 0 && asked <= server->failed_at) return 0;
  server->failed_at = now;
  // A server that was left out stays left out.
  server->not_before = std::max(
      server->not_before, now + kServerRetry.Delay(server->failures, Jitter()));
  server->why = std::string(why);
  return ++server->failures;
}

void ServerSet::Paused(ServerId id, absl::Time now, absl::Duration delay) {
  Server* server = Find(id);
  if (server == nullptr) return;
  server->not_before =
      std::max(server->not_before, now + RetryPause(delay, Jitter()));
  server->why = "busy";
}

bool ServerSet::LeaveOut(ServerId id, absl::Time now, absl::string_view why) {
  Server* server = Find(id);
  if (server == nullptr) return false;
  const bool was_in = !server->left_out;
  // left_out outlasts not_before: the request that checks the server again does
  // not make it usable. Its answer decides.
  server->left_out = true;
  server->not_before = now + kLeaveOutFor;
  server->why = std::string(why);
  return was_in;
}

uint32_t ServerSet::Suspected(ServerId id) {
  Server* server = Find(id);
  return server == nullptr ? 0 : ++server->suspicions;
}

void ServerSet::Reconnected(ServerId id, absl::Time now) {
  Server* server = Find(id);
  if (server == nullptr) return;
  // The suspicions were about the old connection. reconnects counts on until
  // the server delivers. silent_until stays: the server has sent nothing yet.
  server->suspicions = 0;
  ++server->reconnects;
  server->reconnected_at = now;
  server->reconnecting = true;
}

bool ServerSet::OthersMayServe(ServerId id) const {
  return std::any_of(servers_.begin(), servers_.end(),
                     [id](const Server& server) {
                       return server.state.id != id && !server.left_out;
                     });
}

absl::Duration ServerSet::Quiet(ServerId id, absl::Time now) const {
  const Server* server = Find(id);
  if (server == nullptr || server->outstanding == 0) {
    return absl::ZeroDuration();
  }
  return now - server->heard;
}

bool ServerSet::HasLostRace(ServerId id) const {
  const Server* server = Find(id);
  return server != nullptr && server->lost_race;
}

bool ServerSet::IsSilent(ServerId id, absl::Time now) const {
  const Server* server = Find(id);
  return server != nullptr && now < server->silent_until;
}

uint32_t ServerSet::silences(ServerId id) const {
  const Server* server = Find(id);
  return server == nullptr ? 0 : server->silences;
}

uint32_t ServerSet::reconnects(ServerId id) const {
  const Server* server = Find(id);
  return server == nullptr ? 0 : server->reconnects;
}

bool ServerSet::OnNewestConnection(ServerId id, absl::Time started) const {
  const Server* server = Find(id);
  return server != nullptr && started > server->reconnected_at;
}

double ServerSet::Share(ServerId id) const {
  double all = 0;
  double own = 0;
  for (const Server& server : servers_) {
    if (!server.state.ready || server.left_out) continue;
    all += server.weight;
    if (server.state.id == id) own = server.weight;
  }
  return all > 0 ? own / all : 0;
}

double ServerSet::BestLatency() const {
  double best = 0;
  for (const Server& server : servers_) {
    if (!server.state.ready || server.left_out || server.latency <= 0) continue;
    if (best == 0 || server.latency < best) best = server.latency;
  }
  return best;
}

void ServerSet::ForgetSpeed(Server* server) {
  server->latency = 0;
  server->weight = 1;
}

uint32_t ServerSet::usable() const {
  return static_cast<uint32_t>(
      std::count_if(servers_.begin(), servers_.end(), [](const Server& server) {
        return server.state.ready && !server.left_out;
      }));
}

bool ServerSet::AnyAnswers(absl::Time now, absl::Duration patience) const {
  return std::any_of(
      servers_.begin(), servers_.end(), [now, patience](const Server& server) {
        return server.state.ready && !server.left_out &&
               (server.outstanding == 0 || now - server.heard < patience);
      });
}

std::string ServerSet::AddressOf(ServerId id) const {
  const Server* server = Find(id);
  return server == nullptr ? "a server that was removed"
                           : server->state.address;
}

std::string ServerSet::Describe() const {
  if (servers_.empty()) return "the name resolves to no address";
  std::string text;
  for (const Server& server : servers_) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", server.state.address, ": ",
                    !server.why.empty()  ? server.why
                    : server.state.ready ? "connected"
                                         : "not connected");
  }
  return text;
}

ServerSet::Server* ServerSet::Find(ServerId id) {
  for (Server& server : servers_) {
    if (server.state.id == id) return &server;
  }
  return nullptr;
}

const ServerSet::Server* ServerSet::Find(ServerId id) const {
  return const_cast<ServerSet*>(this)->Find(id);
}

double ServerSet::Jitter() {
  // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): its constants.
  uint64_t z = (jitter_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

}  // namespace millrace::prefetch
