#include "server/rpc/client_shares.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <utility>

#include "common/logging.h"

namespace millrace::rpc {
namespace {

// Max number of connections in Host::paces. A choice: more than the number
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
  member->host_ = &hosts_.try_emplace(member->host_name_, times_).first->second;
  Host& host = *member->host_;
  const auto [client, is_new] = host.clients.try_emplace(member->client_name_);
  member->client_ = &client->second;
  if (is_new) {
    const auto [connection, is_new_connection] =
        host.connections.try_emplace(member->connection_name_);
    if (is_new_connection) {
      const auto before = host.paces.extract(member->connection_name_);
      if (!before.empty()) connection->second.pace = before.mapped();
      connection->second.late = connection->second.pace == ReaderPace::kSlow;
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
                      [](const auto& entry) {
                        return entry.second.pace == ReaderPace::kSlow;
                      });
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

uint64_t ClientShares::SlowBytes(const Host& host) {
  uint64_t bytes = 0;
  for (const auto& [name, connection] : host.connections) {
    if (connection.pace == ReaderPace::kSlow) {
      bytes += connection.outstanding_bytes;
    }
  }
  return bytes;
}

bool ClientShares::FitsHostShare(const Member& member, bool drained) const {
  const Host& host = *member.host_;
  const uint64_t of_host = drained ? SlowBytes(host) : host.outstanding_bytes;
  const uint64_t reserved = drained ? 0 : host.reserve_bytes;
  return of_host == 0 || of_host - reserved + member.step_bytes_ <= HostShare();
}

bool ClientShares::FitsReserve(const Member& member, uint64_t reserved,
                               bool drained) const {
  const Host& host = *member.host_;
  const Connection& connection = member.client_->connection->second;
  if (connection.pace == ReaderPace::kSlow ||
      (connection.outstanding_bytes > 0 && !drained)) {
    return false;
  }
  // Connections that are not late return their memory soon: together they have
  // no more than the host's part. The other half of the free quarter is left
  // for a new host.
  const uint64_t of_host = drained ? SlowBytes(host) : host.outstanding_bytes;
  const uint64_t late = drained ? of_host : host.late_bytes;
  const uint64_t all = outstanding_bytes_ - reserve_bytes_ + reserved -
                       host.outstanding_bytes + of_host;
  return of_host - late + member.step_bytes_ <= HostShare() &&
         all + member.step_bytes_ <= bytes_ / 8 * 7;
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
        (connection->second.pace == ReaderPace::kSlow ||
         connection != member.client_->connection)) {
      continue;
    }
    // Odd widths: 1, 4-7, 16-31, ...
    const uint64_t waited = (now_() - other->waits_since_) / kPatience;
    const bool holds = connection->second.pace == ReaderPace::kSlow
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
    if (member->host_ == &host && connection.pace != ReaderPace::kSlow &&
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
  if (connection.late) member->host_->late_bytes += bytes;
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
  Host& host = *member->host_;
  connection.outstanding_bytes -= bytes;
  host.outstanding_bytes -= bytes;
  if (connection.late) host.late_bytes -= bytes;
  outstanding_bytes_ -= bytes;
  // The batch in the reserve is the oldest one of its connection.
  if (bytes > 0 && connection.in_reserve.has_value()) {
    const auto [stay, reserved] =
        *std::exchange(connection.in_reserve, std::nullopt);
    host.turns.End(stay, now_());
    host.reserve_bytes -= reserved;
    reserve_bytes_ -= reserved;
  }
}

void ClientShares::SetLate(const Member& member, bool late) {
  Connection& connection = member.client_->connection->second;
  if (connection.late == late) return;
  connection.late = late;
  if (late) {
    member.host_->late_bytes += connection.outstanding_bytes;
  } else {
    member.host_->late_bytes -= connection.outstanding_bytes;
  }
}

std::map<ClientShares::Host*, ClientShares::Contenders>
ClientShares::ContendersForReserve(const Connection* leaves) const {
  std::map<Host*, Contenders> contenders;
  for (Member* const member : waiting_) {
    const Connection& connection = member->client_->connection->second;
    if (FitsHostShare(*member) || &connection == leaves ||
        !FitsReserve(*member, leaves == nullptr ? reserve_bytes_ : 0) ||
        IsHeldBack(*member)) {
      continue;
    }
    Contenders& of_host = contenders[member->host_];
    of_host.calls.push_back(member);
    of_host.paces.push_back(connection.pace);
  }
  return contenders;
}

ClientShares::NextTurn ClientShares::NextInReserve() const {
  NextTurn next;
  const SteadyTime now = now_();
  // The hosts take turns, too.
  uint64_t last_turn = 0;
  for (const auto& [host, contenders] : ContendersForReserve(nullptr)) {
    if (next.call != nullptr && host->last_turn >= last_turn) continue;
    const auto chosen = host->turns.Next(contenders.paces, now);
    if (!chosen.has_value()) continue;
    next = {.call = contenders.calls[chosen->index], .chosen = *chosen};
    last_turn = host->last_turn;
  }
  return next;
}

void ClientShares::BeginTurn(const NextTurn& next) {
  Member* const member = next.call;
  Host& host = *member->host_;
  Connection& connection = member->client_->connection->second;
  const uint64_t bytes = member->step_bytes_;
  // A batch that is larger than the reserve takes longer than a turn to send,
  // and others find no room where it was. It stays until its connection is slow
  // (HostExcess()).
  if (bytes <= bytes_ / 8) {
    connection.in_reserve = InReserve{
        .stay = host.turns.Begin(next.chosen, connection.pace, now_()),
        .bytes = bytes};
    host.reserve_bytes += bytes;
    reserve_bytes_ += bytes;
  }
  host.last_turn = ++turns_;
  SetWaits(member, false);
  Count(member, 1);
}

void ClientShares::SetWaits(Member* member, bool waits) {
  if (member->waits_ == waits) return;
  member->waits_ = waits;
  if (waits) {
    member->waits_since_ = now_();
    waiting_.push_back(member);
  } else {
    waiting_.remove(member);
  }
}

std::vector<std::function<void()>> ClientShares::Grant() {
  std::vector<std::function<void()>> callbacks;
  while (!waiting_.empty()) {
    // The client with the fewest outstanding bytes comes first; among equals,
    // the call that has waited longest. Each grant is counted before the next
    // search.
    Member* best = nullptr;
    for (Member* const member : waiting_) {
      const uint64_t outstanding = member->client_->outstanding_bytes;
      if ((best == nullptr || outstanding < best->client_->outstanding_bytes) &&
          FitsHostShare(*member) && HasRoom(*member)) {
        best = member;
        if (outstanding == 0) break;
      }
    }
    if (best != nullptr) {
      SetWaits(best, false);
      Count(best, 1);
    } else {
      const NextTurn next = NextInReserve();
      if (next.call == nullptr) break;
      BeginTurn(next);
      best = next.call;
    }
    ++best->granted_;
    callbacks.push_back(best->on_room_);
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
        if (connection->second.pace != ReaderPace::kNew) {
          if (host_->paces.size() >= kMaxRemembered) host_->paces.clear();
          host_->paces[connection->first] = connection->second.pace;
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

uint64_t ClientShares::Member::Take(uint64_t most) {
  MutexLock lock(shares_->mu_);
  // Granted steps are already counted.
  uint64_t taken = std::min(most, granted_);
  granted_ -= taken;
  const uint64_t window = shares_->Window(*this);
  // A few large runs cost less than many small ones. A call that is not below
  // half of its window is not added to waiting_ either: its own Return() leads
  // here again.
  if (taken == 0 && outstanding_ > window / 2) return 0;
  // This overtakes no waiting call: every thread that makes room calls Grant()
  // under the same lock, so the room that is left is not enough for the calls
  // that wait.
  while (taken < most && outstanding_ < window &&
         shares_->FitsHostShare(*this) && shares_->HasRoom(*this)) {
    shares_->Count(this, 1);
    ++taken;
  }
  shares_->SetWaits(this, taken == 0);
  if (taken > 0) return taken;
  // In the reserve it may be the turn of a call that waits: Look() grants it.
  const NextTurn next = shares_->NextInReserve();
  if (next.call != this) return 0;
  shares_->BeginTurn(next);
  return 1;
}

std::vector<std::function<void()>> ClientShares::Member::Return(
    uint64_t steps, bool takes_more) {
  MutexLock lock(shares_->mu_);
  shares_->Uncount(this, steps);
  if (takes_more && client_->outstanding_bytes == 0) {
    shares_->SetWaits(this, true);
  }
  return shares_->Grant();
}

std::vector<std::function<void()>> ClientShares::Member::ReturnAll() {
  MutexLock lock(shares_->mu_);
  shares_->SetWaits(this, false);
  // outstanding_ includes the steps that were granted and not taken.
  granted_ = 0;
  shares_->Uncount(this, outstanding_);
  return shares_->Grant();
}

std::vector<std::function<void()>> ClientShares::Member::Waits(
    std::chrono::nanoseconds waited) {
  MutexLock lock(shares_->mu_);
  Connection& connection = client_->connection->second;
  const bool is_slow = waited >= shares_->times_.slow;
  const bool is_late = is_slow || waited >= shares_->times_.late;
  if (!is_late ||
      (connection.late && (!is_slow || connection.pace == ReaderPace::kSlow))) {
    return {};
  }
  if (is_slow) connection.pace = ReaderPace::kSlow;
  shares_->SetLate(*this, true);
  return shares_->Grant();
}

void ClientShares::Member::Sent(std::chrono::nanoseconds waited) {
  MutexLock lock(shares_->mu_);
  Connection& connection = client_->connection->second;
  connection.pace = shares_->times_.Sent(connection.pace, waited);
  shares_->SetLate(*this, connection.pace == ReaderPace::kSlow);
}

bool ClientShares::Member::LeaveReserve(std::chrono::nanoseconds waited) {
  MutexLock lock(shares_->mu_);
  Connection& connection = client_->connection->second;
  if (!connection.in_reserve.has_value()) return false;
  const SteadyTime now = shares_->now_();
  for (const auto& [host, others] :
       shares_->ContendersForReserve(&connection)) {
    if (!host->turns.MustLeave(connection.in_reserve->stay, waited,
                               others.paces, now)) {
      continue;
    }
    connection.pace = shares_->times_.TakenBack(connection.pace, waited);
    shares_->SetLate(*this, connection.pace == ReaderPace::kSlow);
    return true;
  }
  return false;
}

uint64_t ClientShares::Member::HostExcess() const {
  MutexLock lock(shares_->mu_);
  if (client_->connection->second.pace != ReaderPace::kSlow ||
      !shares_->APromptOneWaits(*host_)) {
    return 0;
  }
  uint64_t slow_bytes = SlowBytes(*host_);
  for (const auto& [name, connection] : host_->connections) {
    if (connection.pace == ReaderPace::kSlow && connection.in_reserve) {
      slow_bytes -= connection.in_reserve->bytes;
    }
  }
  // A host keeps one batch, whatever its size.
  const uint64_t bytes =
      std::min(Above(slow_bytes, std::max(shares_->HostShare(), step_bytes_)),
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
