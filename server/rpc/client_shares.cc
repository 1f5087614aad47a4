#include "server/rpc/client_shares.h"

#include <algorithm>
#include <bit>
#include <set>

#include "common/logging.h"

namespace millrace::rpc {
namespace {

// Max number of connections in Host::were_slow. A choice: more than the number
// of connections that stream from one address at a time, and less than 100 KiB.
constexpr size_t kMaxRemembered = 1024;

// The part of `outstanding` above `share`; 0 if there is none.
uint64_t Above(uint64_t outstanding, uint64_t share) {
  return outstanding - std::min(outstanding, share);
}

}  // namespace

std::unique_ptr<ClientShares::Member> ClientShares::Join(Call call) {
  std::unique_ptr<Member> member(new Member(this, std::move(call)));
  MutexLock lock(mu_);
  // Map entries keep their addresses until they are erased. The last member
  // that points to an entry erases it.
  member->host_ = &hosts_[member->host_name_];
  Host& host = *member->host_;
  const auto [client, is_new] = host.clients.try_emplace(member->client_name_);
  member->client_ = &client->second;
  if (is_new) {
    const auto [connection, is_new_connection] =
        host.connections.try_emplace(member->connection_name_);
    if (is_new_connection) {
      connection->second.slow =
          host.were_slow.erase(member->connection_name_) > 0;
    }
    client->second.connection = connection;
    ++connection->second.clients;
    client->second.nothing_since = now_();
  }
  // The shares are smaller from here on. No other call is notified: it finds
  // out with its next Take() or through Excess().
  ++member->client_->calls;
  return member;
}

uint64_t ClientShares::starving() const {
  MutexLock lock(mu_);
  uint64_t starving = 0;
  for (const Member* member : waiting_) starving += IsStarving(*member);
  return starving;
}

std::vector<std::function<void()>> ClientShares::Look() {
  MutexLock lock(mu_);
  return Grant();
}

std::vector<ClientShares::FullHost> ClientShares::FullHosts(
    SteadyTime before, SteadyTime since) const {
  std::map<std::string, FullHost> full;
  std::set<const Client*> seen;
  MutexLock lock(mu_);
  for (const Member* member : waiting_) {
    const Client& client = *member->client_;
    if (client.outstanding_bytes > 0 || !HostIsFull(*member) ||
        std::max({member->waits_since_, client.nothing_since, since}) >
            before) {
      continue;
    }
    const Host& host = *member->host_;
    const Connection& connection = client.connection->second;
    FullHost& found = full[member->host_name_];
    found.host = member->host_name_;
    found.clients += seen.insert(&client).second ? 1 : 0;
    found.connections = host.connections.size();
    found.slow_connections =
        std::count_if(host.connections.begin(), host.connections.end(),
                      [](const auto& entry) { return entry.second.slow; });
    found.batch_bytes = std::max(found.batch_bytes, member->step_bytes_);
    found.held_bytes = host.outstanding_bytes;
    found.share_bytes = HostShare();
    // With a budget of this size, one batch fits the share of each connection,
    // and of each client of a connection on which other clients have
    // outstanding batches. The inverse of HostShare(): the host's share times
    // the number of hosts, times 4/3, rounded up.
    const uint64_t clients =
        connection.outstanding_bytes > 0 ? connection.clients : 1;
    const uint64_t share =
        member->step_bytes_ * clients * host.connections.size();
    found.needed_bytes =
        std::max(found.needed_bytes, (share * hosts_.size() + 2) / 3 * 4);
  }
  std::vector<FullHost> hosts;
  for (auto& [name, host] : full) hosts.push_back(std::move(host));
  return hosts;
}

uint64_t ClientShares::HostShare() const {
  // A quarter stays free, so that a new host finds room at once, before the
  // other hosts have shrunk to their new shares. The quarter is a choice.
  return bytes_ / 4 * 3 / hosts_.size();
}

uint64_t ClientShares::ConnectionShare(const Host& host,
                                       uint64_t clients) const {
  const uint64_t connections = host.connections.size();
  const uint64_t share = HostShare() / connections;
  if (hosts_.size() > 1) return share;
  // A single host keeps a client's share free for one more of its own clients
  // that may come.
  return std::min(share, bytes_ / (connections * clients + 1) * clients);
}

uint64_t ClientShares::ClientShare(const Member& member) const {
  const uint64_t clients = member.client_->connection->second.clients;
  return ConnectionShare(*member.host_, clients) / clients;
}

uint64_t ClientShares::Window(const Member& member) const {
  const uint64_t bytes = ClientShare(member) / member.client_->calls;
  return std::max<uint64_t>(1, bytes / member.step_bytes_);
}

bool ClientShares::HasRoom(const Member& member) const {
  const Host& host = *member.host_;
  const Client& client = *member.client_;
  const Connection& connection = client.connection->second;
  const uint64_t bytes = member.step_bytes_;
  if (HostIsFull(member) || IsHeldBack(member)) return false;
  // A connection with nothing outstanding always gets one batch within its
  // host's share, so that every process makes progress.
  if (connection.outstanding_bytes == 0) return true;
  if (MustYield(member)) return false;
  if (client.outstanding_bytes == 0) {
    // The first batch of a further client on the same connection. It is not
    // guaranteed, because programs can invent client ids: with a guaranteed
    // batch for each id, slow clients would fill the host's share.
    return connection.outstanding_bytes + bytes <=
               ConnectionShare(host, connection.clients) ||
           host.connections.size() == 1 ||
           host.outstanding_bytes + bytes <= HostShare() / 2;
  }
  if (client.outstanding_bytes + bytes <= ClientShare(member)) return true;
  // A client may read its calls in turns. While there is plenty of room, a call
  // without any batch gets one above the client's share, so that it does not
  // wait until another call of the same client is read.
  return member.outstanding_ == 0 &&
         outstanding_bytes_ + 2 * bytes <= bytes_ / 4 * 3;
}

bool ClientShares::HostIsFull(const Member& member, bool drained) const {
  const Host& host = *member.host_;
  const uint64_t bytes = member.step_bytes_;
  const uint64_t share = HostShare();
  const uint64_t of_host = drained ? host.slow_bytes : host.outstanding_bytes;
  if (of_host == 0 || of_host + bytes <= share) return false;
  // If a host is full because of slow connections, its other connections get a
  // batch from the free quarter, because they return the memory soon. The other
  // half of the quarter is left for a new host.
  const Connection& connection = member.client_->connection->second;
  return connection.slow || (connection.outstanding_bytes > 0 && !drained) ||
         of_host - host.slow_bytes + bytes > share ||
         outstanding_bytes_ - host.outstanding_bytes + of_host + bytes >
             bytes_ / 8 * 7;
}

bool ClientShares::IsHeldBack(const Member& member) const {
  for (const Member* other : waiting_) {
    // First come first: the rest waits behind `member`.
    if (other == &member) return false;
    if (other->host_ != member.host_ || other->client_->outstanding_bytes > 0 ||
        other->step_bytes_ <= member.step_bytes_) {
      continue;
    }
    // A further client of a connection has a right to a batch only when its
    // connection has nothing.
    const auto connection = other->client_->connection;
    if (connection->second.outstanding_bytes > 0 &&
        (connection->second.slow || connection != member.client_->connection)) {
      continue;
    }
    // Odd widths: 1, 4-7, 16-31, ...
    const uint64_t waited = (now_() - other->waits_since_) / kPatience;
    const bool holds = connection->second.slow
                           ? waited % 32 == 1
                           : std::bit_width(waited) % 2 == 1;
    if (holds && !HostIsFull(*other, /*drained=*/true)) {
      return true;
    }
  }
  return false;
}

bool ClientShares::APromptOneWaits(const Host& host) const {
  for (const Member* member : waiting_) {
    const Connection& connection = member->client_->connection->second;
    if (member->host_ == &host && !connection.slow &&
        connection.outstanding_bytes == 0) {
      return true;
    }
  }
  return false;
}

bool ClientShares::IsStarving(const Member& member) const {
  return member.client_->outstanding_bytes == 0 &&
         (member.client_->connection->second.outstanding_bytes == 0 ||
          member.step_bytes_ <= ClientShare(member));
}

bool ClientShares::MustYield(const Member& member) const {
  const bool has_none = member.client_->outstanding_bytes == 0;
  for (const Member* other : waiting_) {
    if (other->host_ != member.host_ || other->client_->outstanding_bytes > 0) {
      continue;
    }
    // Connections without a batch come first, then clients without a batch.
    // Otherwise calls with small batches, which always find room, would block a
    // call with large batches forever.
    const auto connection = other->client_->connection;
    if (connection->second.outstanding_bytes == 0) return true;
    if (has_none) continue;
    if (connection == member.client_->connection || IsStarving(*other)) {
      return true;
    }
  }
  return false;
}

void ClientShares::Count(Member* member, uint64_t steps) {
  const uint64_t bytes = steps * member->step_bytes_;
  member->outstanding_ += steps;
  member->client_->outstanding_bytes += bytes;
  Connection& connection = member->client_->connection->second;
  connection.outstanding_bytes += bytes;
  member->host_->outstanding_bytes += bytes;
  if (connection.slow) member->host_->slow_bytes += bytes;
  outstanding_bytes_ += bytes;
}

void ClientShares::Uncount(Member* member, uint64_t steps) {
  MR_CHECK(steps <= member->outstanding_);
  const uint64_t bytes = steps * member->step_bytes_;
  member->outstanding_ -= steps;
  // The same bytes as in Count(): step_bytes_ is constant and independent of
  // the actual size of the batch.
  member->client_->outstanding_bytes -= bytes;
  if (bytes > 0 && member->client_->outstanding_bytes == 0) {
    member->client_->nothing_since = now_();
  }
  Connection& connection = member->client_->connection->second;
  connection.outstanding_bytes -= bytes;
  member->host_->outstanding_bytes -= bytes;
  if (connection.slow) member->host_->slow_bytes -= bytes;
  outstanding_bytes_ -= bytes;
}

std::vector<std::function<void()>> ClientShares::Grant() {
  std::vector<std::function<void()>> callbacks;
  while (!waiting_.empty()) {
    // The client with the fewest outstanding bytes comes first; among equals,
    // the call that has waited longest. Each grant is counted before the next
    // search.
    auto best = waiting_.end();
    for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
      const uint64_t outstanding = (*at)->client_->outstanding_bytes;
      if ((best == waiting_.end() ||
           outstanding < (*best)->client_->outstanding_bytes) &&
          HasRoom(**at)) {
        best = at;
        if (outstanding == 0) break;
      }
    }
    if (best == waiting_.end()) break;
    Member* const member = *best;
    waiting_.erase(best);
    member->waits_ = false;
    ++member->granted_;
    Count(member, 1);
    callbacks.push_back(member->on_room_);
  }
  return callbacks;
}

ClientShares::Member::Member(ClientShares* shares, Call call)
    : shares_(shares),
      host_name_(std::move(call.host)),
      connection_name_(std::move(call.connection)),
      client_name_(std::move(call.client)),
      step_bytes_(std::max<uint64_t>(1, call.step_bytes)),
      on_room_(std::move(call.on_room)) {}

ClientShares::Member::~Member() {
  std::vector<std::function<void()>> callbacks;
  {
    MutexLock lock(shares_->mu_);
    // A thread that has copied on_room of this member may still call it.
    // on_room must check by itself whether the call is over.
    if (waits_) shares_->waiting_.remove(this);
    shares_->Uncount(this, outstanding_);
    if (--client_->calls == 0) {
      const auto connection = client_->connection;
      if (--connection->second.clients == 0) {
        if (connection->second.slow) {
          if (host_->were_slow.size() >= kMaxRemembered) {
            host_->were_slow.clear();
          }
          host_->were_slow.insert(connection->first);
        }
        host_->connections.erase(connection);
      }
      host_->clients.erase(client_name_);
      if (host_->clients.empty()) shares_->hosts_.erase(host_name_);
    }
    callbacks = shares_->Grant();
  }
  // Without the lock, because on_room calls Take().
  for (const auto& on_room : callbacks) on_room();
}

uint64_t ClientShares::Member::Take(uint64_t max) {
  MutexLock lock(shares_->mu_);
  // Granted steps are already counted.
  uint64_t taken = std::min(max, granted_);
  granted_ -= taken;
  const uint64_t window = shares_->Window(*this);
  // A few large runs cost less than many small ones. A call that is not below
  // half of its window is not added to waiting_ either: its own Return() leads
  // here again.
  if (taken == 0 && outstanding_ > window / 2) return 0;
  // This overtakes no waiting call: every thread that makes room calls Grant()
  // under the same lock, so the room that is left is not enough for the calls
  // that wait.
  while (taken < max && outstanding_ < window && shares_->HasRoom(*this)) {
    shares_->Count(this, 1);
    ++taken;
  }
  const bool waits = taken == 0;
  if (waits != waits_) {
    waits_ = waits;
    if (waits) {
      waits_since_ = shares_->now_();
      shares_->waiting_.push_back(this);
    } else {
      shares_->waiting_.remove(this);
    }
  }
  return taken;
}

std::vector<std::function<void()>> ClientShares::Member::Return(
    uint64_t steps) {
  MutexLock lock(shares_->mu_);
  shares_->Uncount(this, steps);
  return shares_->Grant();
}

std::vector<std::function<void()>> ClientShares::Member::ReturnAll() {
  MutexLock lock(shares_->mu_);
  // outstanding_ includes the steps that were granted and not taken.
  granted_ = 0;
  shares_->Uncount(this, outstanding_);
  return shares_->Grant();
}

std::vector<std::function<void()>> ClientShares::Member::SetSlow(bool slow) {
  MutexLock lock(shares_->mu_);
  Connection& connection = client_->connection->second;
  if (connection.slow == slow) return {};
  connection.slow = slow;
  if (slow) {
    host_->slow_bytes += connection.outstanding_bytes;
  } else {
    host_->slow_bytes -= connection.outstanding_bytes;
  }
  return shares_->Grant();
}

uint64_t ClientShares::Member::HostExcess() const {
  MutexLock lock(shares_->mu_);
  if (!client_->connection->second.slow || !shares_->APromptOneWaits(*host_)) {
    return 0;
  }
  // A host keeps one batch, whatever its size.
  const uint64_t bytes = std::min(
      Above(host_->slow_bytes, std::max(shares_->HostShare(), step_bytes_)),
      client_->outstanding_bytes);
  return (bytes + step_bytes_ - 1) / step_bytes_;
}

uint64_t ClientShares::Member::Excess() const {
  MutexLock lock(shares_->mu_);
  uint64_t bytes = Above(client_->outstanding_bytes,
                         std::max(shares_->ClientShare(*this), step_bytes_));
  const Connection& connection = client_->connection->second;
  if (connection.clients > 1) {
    const uint64_t of_connection =
        Above(connection.outstanding_bytes,
              std::max(shares_->ConnectionShare(*host_, connection.clients),
                       step_bytes_));
    bytes =
        std::max(bytes, std::min(of_connection, client_->outstanding_bytes));
  }
  return (bytes + step_bytes_ - 1) / step_bytes_;
}

}  // namespace millrace::rpc
