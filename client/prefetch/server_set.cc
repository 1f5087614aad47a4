#include "client/prefetch/server_set.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kLongestBackoff = absl::Seconds(2);

}  // namespace

void ServerSet::Update(absl::Span<const ServerState> servers) {
  std::vector<Server> updated;
  updated.reserve(servers.size());
  for (const ServerState& state : servers) {
    Server* known = Find(state.id);
    Server server = known == nullptr ? Server() : std::move(*known);
    if (state.ready && !server.state.ready) {
      server.silent_until = absl::InfinitePast();
    }
    server.state = state;
    server.preference =
        (updated.size() + servers.size() - rotation_ % servers.size()) %
        servers.size();
    updated.push_back(std::move(server));
  }
  servers_ = std::move(updated);
}

std::optional<ServerId> ServerSet::Pick(absl::Time now, ServerId avoid) const {
  const Server* best = nullptr;
  const auto rank = [avoid, now](const Server& server) {
    return std::make_tuple(server.state.id == avoid, now < server.silent_until,
                           server.outstanding, server.last_asked,
                           server.preference);
  };
  for (const Server& server : servers_) {
    if (!server.state.ready || now < server.not_before) continue;
    if (best == nullptr || rank(server) < rank(*best)) best = &server;
  }
  if (best == nullptr) return std::nullopt;
  return best->state.id;
}

std::optional<ServerId> ServerSet::PickOther(absl::Time now,
                                             ServerId other_than) const {
  const Server* best = nullptr;
  for (const Server& server : servers_) {
    if (!server.state.ready || now < server.not_before ||
        now < server.silent_until || server.state.id == other_than) {
      continue;
    }
    if (best == nullptr || server.outstanding < best->outstanding) {
      best = &server;
    }
  }
  if (best == nullptr) return std::nullopt;
  return best->state.id;
}

void ServerSet::Asked(ServerId id, uint64_t steps) {
  if (Server* server = Find(id)) {
    server->outstanding += steps;
    server->last_asked = ++asks_;
  }
}

void ServerSet::Settled(ServerId id, uint64_t steps) {
  if (Server* server = Find(id)) {
    server->outstanding -= std::min(steps, server->outstanding);
  }
}

void ServerSet::Progress(ServerId id) {
  if (Server* server = Find(id)) {
    server->silent_until = absl::InfinitePast();
    server->left_out = false;
    server->failures = 0;
    server->why.clear();
  }
}

void ServerSet::Silent(ServerId id, absl::Time now) {
  if (Server* server = Find(id)) {
    server->silent_until = now + kLeaveOutFor;
    server->why = "silent";
  }
}

bool ServerSet::Failed(ServerId id, absl::Time now, absl::string_view why) {
  Server* server = Find(id);
  if (server == nullptr) return false;
  const absl::Duration backoff = std::min(
      kLongestBackoff,
      kFirstBackoff * (int64_t{1} << std::min<uint32_t>(server->failures, 10)));
  // Half of it is left to chance, so that clients do not come back together.
  server->not_before = now + backoff / 2 + backoff / 2 * Jitter();
  server->why = std::string(why);
  return server->failures++ == 0;
}

void ServerSet::Paused(ServerId id, absl::Time now, absl::Duration delay) {
  Server* server = Find(id);
  if (server == nullptr) return;
  server->not_before =
      std::max(server->not_before, now + delay + delay / 4 * Jitter());
  server->why = "busy";
}

bool ServerSet::LeaveOut(ServerId id, absl::Time now, absl::string_view why) {
  Server* server = Find(id);
  if (server == nullptr) return false;
  const bool was_in = !server->left_out;
  server->left_out = true;
  server->not_before = now + kLeaveOutFor;
  server->why = std::string(why);
  return was_in;
}

bool ServerSet::OthersMayServe(ServerId id) const {
  return std::any_of(servers_.begin(), servers_.end(),
                     [id](const Server& server) {
                       return server.state.id != id && !server.left_out;
                     });
}

uint32_t ServerSet::usable() const {
  return static_cast<uint32_t>(
      std::count_if(servers_.begin(), servers_.end(), [](const Server& server) {
        return server.state.ready && !server.left_out;
      }));
}

std::string ServerSet::AddressOf(ServerId id) const {
  const Server* server = Find(id);
  return server == nullptr ? "a server that is gone" : server->state.address;
}

std::string ServerSet::Describe() const {
  if (servers_.empty()) return "the name has no address";
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

}  // namespace millrace
