#include "server/pipeline/threads/fair_queue.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace millrace::pipeline {
namespace {

// Nanoseconds charged for a row before the first row of its plan is measured. A
// choice, above the time of most images: a plan with cheaper rows gets the
// difference back when its first task ends.
constexpr double kUnknownRowNanos = 1e6;
// Weight of a measured time below the mean of a plan's rows. A time above the
// mean replaces it at once, so that one task that was too long is enough to
// make later tasks shorter. A choice.
constexpr double kNewPart = 0.25;
// Interval between two refreshes of the live calls and clients, and so the max
// delay of the weights. A refresh takes time in proportion to the number of
// clients. A choice.
constexpr int64_t kRefreshNanos = 250'000'000;
// recent_share covers the current window and the one before: 5 to 10 seconds.
constexpr int64_t kWindowNanos = 5'000'000'000;

}  // namespace

// The tree is root > group > plan > peer of the plan > client; its leaves are
// the clients. Invariants between two calls of the queue:
//
// A client is waiting() exactly while `waiting` is not empty, and every node
// above a waiting client is waiting, too. An inner node without a waiting child
// is not waiting. So the first child of a waiting node always leads to a lane.
//
// The tree owns clients by name. A client is erased only when IsLive() is
// false: no task of the client runs, no lane has work, and every Sharer of its
// calls is gone. So lanes and turns may point to clients without owning them: a
// lane holds its Sharer, and a turn counts in `running`.
class FairQueue::Client : public FairNode {
 public:
  PeerOfPlan* peer = nullptr;
  std::string name;
  // The lanes of a call that have work, never empty, in ascending order_. The
  // front lane has the next turn and then moves behind those of its order.
  struct Waiting {
    std::shared_ptr<const Sharer> call;
    std::vector<std::shared_ptr<Lane>> lanes;
  };
  // The calls with work. A call moves to the back with its turn.
  std::vector<Waiting> waiting_calls;
  uint64_t turns = 0;
  // Number of turns between Begin() and End().
  uint32_t running = 0;
  // The calls of this client. Each may add work while its Sharer lives.
  std::vector<std::weak_ptr<const Sharer>> calls;
  // When the client was last found live, joined or ended a turn.
  int64_t last_seen = 0;
  // Sum of the nanoseconds of all its turns.
  double given = 0;
  // Nanoseconds in the window before `window` and in `window`. Older than the
  // queue's window_ until TurnTo() is called.
  double recent[2] = {0, 0};
  uint64_t window = 0;

  void TurnTo(uint64_t now) {
    if (window == now) return;
    recent[0] = window + 1 == now ? recent[1] : 0;
    recent[1] = 0;
    window = now;
  }

  bool IsLive() {
    std::erase_if(calls, [](const auto& call) { return call.expired(); });
    return running > 0 || !waiting_calls.empty() || !calls.empty();
  }

  // The place in waiting_calls of the call with the next turn. There is a call
  // with work.
  size_t NextCall() const {
    if (waiting_calls.size() == 1) return 0;
    // Without positions all calls are equal, and the front call is the minimum.
    const auto earliest =
        std::min_element(waiting_calls.begin(), waiting_calls.end(),
                         [](const Waiting& a, const Waiting& b) {
                           return a.call->first < b.call->first;
                         });
    const auto place =
        static_cast<size_t>(std::distance(waiting_calls.begin(), earliest));
    if (turns % kTurns < kEarliestTurns) return place;
    // The front call, or the one behind it if the front call is the earliest.
    return place == 0 && earliest->call->first ? 1 : 0;
  }

  // The lane with the next turn.
  Lane* NextLane() const {
    return waiting_calls[NextCall()].lanes.front().get();
  }

  // NextLane() has its turn. `more`: it has work left.
  void TakeTurn(bool more) {
    const auto call = waiting_calls.begin() + NextCall();
    auto& lanes = call->lanes;
    if (more) {
      // Behind the lanes of its order.
      const auto behind =
          std::find_if(lanes.begin(), lanes.end(), [&](const auto& other) {
            return other->order_ > lanes.front()->order_;
          });
      std::rotate(lanes.begin(), lanes.begin() + 1, behind);
    } else {
      lanes.erase(lanes.begin());
    }
    if (lanes.empty()) {
      waiting_calls.erase(call);
    } else {
      std::rotate(call, call + 1, waiting_calls.end());
    }
    ++turns;
  }

  // Adds a lane behind those of its order, and its call behind the other calls.
  void Add(std::shared_ptr<Lane> lane,
           const std::shared_ptr<const Sharer>& sharer) {
    auto call = std::find_if(
        waiting_calls.begin(), waiting_calls.end(),
        [&](const Waiting& other) { return other.call == sharer; });
    if (call == waiting_calls.end()) {
      waiting_calls.push_back({sharer, {}});
      call = std::prev(waiting_calls.end());
    }
    const auto at = std::upper_bound(
        call->lanes.begin(), call->lanes.end(), lane,
        [](const auto& a, const auto& b) { return a->order_ < b->order_; });
    call->lanes.insert(at, std::move(lane));
  }

  // Takes a lane out, and its call if it was the last one. No effect on a lane
  // without work.
  void Take(const Lane* lane) {
    for (Waiting& call : waiting_calls) {
      std::erase_if(call.lanes,
                    [lane](const auto& other) { return other.get() == lane; });
    }
    std::erase_if(waiting_calls,
                  [](const Waiting& call) { return call.lanes.empty(); });
  }
};

// The clients of one address within a plan. The weight is the number of live
// clients, at most kMaxClientsOfPeer.
struct FairQueue::PeerOfPlan {
  FairNode node;
  Plan* plan = nullptr;
  std::string name;
  std::map<std::string, std::unique_ptr<Client>> clients;
  bool live = false;
};

// `group` is null only within Join(), before CountPlan() has placed the plan.
// `running` counts the turns of the plan's clients.
struct FairQueue::Plan {
  FairNode node;
  Group* group = nullptr;
  std::string hash;
  std::string dataset;
  double weight = 1;
  double row_nanos = 0;  // 0: not measured yet
  uint32_t running = 0;
  bool live = false;
  std::map<std::string, std::unique_ptr<PeerOfPlan>> peers;
};

// The plans that only one peer uses, or one plan that several peers use. The
// weight is that of the heaviest live plan.
struct FairQueue::Group {
  FairNode node;
  std::set<Plan*> plans;
};

FairQueue::FairQueue(Options options) : options_(options) {}

FairQueue::~FairQueue() = default;

void FairQueue::Place(Plan* plan) {
  const PeerOfPlan* only = nullptr;
  int live = 0;
  for (const auto& [name, peer] : plan->peers) {
    if (!peer->live) continue;
    only = peer.get();
    ++live;
  }
  // The plan has no live client. It keeps its place and its used time until it
  // is used again or forgotten.
  if (live == 0 && plan->group != nullptr) return;
  const std::string key = live > 1          ? "plan " + plan->hash
                          : only != nullptr ? "peer " + only->name
                                            : "peer ";
  std::unique_ptr<Group>& group = groups_[key];
  if (group == nullptr) {
    group = std::make_unique<Group>();
    group->node.Attach(&root_);
    group->node.set_weight(plan->weight);
  }
  if (plan->group != group.get()) {
    // Detach() takes the node out of its parent. If the node was waiting, it
    // waits at the new place, starting at the current time there.
    const bool waits = plan->node.waiting();
    if (plan->group != nullptr) {
      plan->node.Detach();
      plan->group->plans.erase(plan);
    }
    plan->group = group.get();
    plan->group->plans.insert(plan);
    plan->node.Attach(&group->node);
    if (waits) plan->node.Enter();
  }
}

FairQueue::Client* FairQueue::Join(const std::shared_ptr<const Sharer>& sharer,
                                   int64_t now) {
  std::unique_ptr<Plan>& plan = plans_[sharer->plan];
  const bool new_plan = plan == nullptr;
  if (new_plan) {
    plan = std::make_unique<Plan>();
    plan->hash = sharer->plan;
  }
  plan->dataset = sharer->dataset;
  plan->weight = sharer->weight;
  std::unique_ptr<PeerOfPlan>& peer = plan->peers[sharer->peer];
  if (peer == nullptr) {
    peer = std::make_unique<PeerOfPlan>();
    peer->plan = plan.get();
    peer->name = sharer->peer;
    peer->node.Attach(&plan->node);
  }
  std::unique_ptr<Client>& client = peer->clients[sharer->client];
  const bool new_client = client == nullptr;
  if (new_client) {
    client = std::make_unique<Client>();
    client->peer = peer.get();
    client->name = sharer->client;
    client->window = window_;
    client->Attach(&peer->node);
    ++clients_;
  }
  client->last_seen = now;
  std::erase_if(client->calls, [](const auto& call) { return call.expired(); });
  const bool known =
      std::any_of(client->calls.begin(), client->calls.end(),
                  [&](const auto& call) { return call.lock() == sharer; });
  if (!known) client->calls.push_back(sharer);
  Client* const joined = client.get();
  // The number of peers of the plan may have changed, or the plan may be live
  // again. So the plan is placed before its first turn. No live client is
  // forgotten; `client` is live, because its call has just been added.
  if (new_client || !peer->live) CountPlan(*plan, now, /*forget=*/false);
  if (now - refreshed_ >= kRefreshNanos || clients_ > 2 * kMaxIdleClients) {
    // A large number of clients is a reason to forget idle ones earlier.
    // `client` is live and stays.
    Refresh(now);
  }
  return joined;
}

void FairQueue::CountPlan(Plan& plan, int64_t now, bool forget) {
  // live_plans_ changes by the difference in `live`.
  const bool lived = plan.live;
  plan.live = false;
  for (auto q = plan.peers.begin(); q != plan.peers.end();) {
    PeerOfPlan& peer = *q->second;
    uint32_t live = 0;
    for (auto c = peer.clients.begin(); c != peer.clients.end();) {
      Client& client = *c->second;
      if (client.IsLive()) {
        client.last_seen = now;
        ++live;
      } else if (forget || now - client.last_seen > kForgetNanos) {
        client.Detach();
        c = peer.clients.erase(c);
        --clients_;
        continue;
      }
      ++c;
    }
    peer.live = live > 0;
    plan.live |= peer.live;
    if (peer.clients.empty()) {
      peer.node.Detach();
      q = plan.peers.erase(q);
      continue;
    }
    peer.node.set_weight(std::clamp<uint32_t>(live, 1, kMaxClientsOfPeer));
    ++q;
  }
  // Also counted for a plan that has become empty, which Refresh() erases next.
  live_plans_ += plan.live;
  live_plans_ -= lived;
  if (!plan.peers.empty()) {
    plan.node.set_weight(plan.weight);
    Place(&plan);
  }
}

void FairQueue::Refresh(int64_t now) {
  refreshed_ = now;
  // Otherwise an idle client is remembered for kForgetNanos, so that a new call
  // does not clear the time that the client has used.
  const bool crowded = clients_ > kMaxIdleClients;
  for (auto p = plans_.begin(); p != plans_.end();) {
    Plan& plan = *p->second;
    CountPlan(plan, now, crowded);
    if (plan.peers.empty()) {
      plan.node.Detach();
      plan.group->plans.erase(&plan);
      p = plans_.erase(p);
    } else {
      ++p;
    }
  }
  for (auto g = groups_.begin(); g != groups_.end();) {
    Group& group = *g->second;
    if (group.plans.empty()) {
      group.node.Detach();
      g = groups_.erase(g);
      continue;
    }
    double weight = 0;
    for (const Plan* plan : group.plans) {
      if (plan->live) weight = std::max(weight, plan->weight);
    }
    // With weight 0, no plan of the group is live and the weight does not
    // matter.
    if (weight > 0) group.node.set_weight(weight);
    ++g;
  }
}

void FairQueue::Push(const std::shared_ptr<Lane>& lane, int64_t now) {
  const std::shared_ptr<const Sharer>& sharer =
      lane->sharer_ == nullptr ? nobody_ : lane->sharer_;
  // Joined once: the lane holds its sharer, and the sharer keeps the client.
  if (lane->client_ == nullptr) lane->client_ = Join(sharer, now);
  Client& client = *lane->client_;
  client.Add(lane, sharer);
  client.Enter();
}

void FairQueue::Remove(Lane* lane) {
  Client* const client = lane->client_;
  if (client == nullptr) return;
  client->Take(lane);  // the caller holds the lane
  if (client->waiting_calls.empty()) client->Leave();
}

FairQueue::Lane* FairQueue::Next(uint32_t threads) const {
  if (!root_.has_waiting()) return nullptr;
  // With leaves_room, a plan may have at most as many threads as stay free
  // (half of the threads), and at least one. A plan at this limit is skipped.
  const bool limited = options_.leaves_room && live_plans_ > 1;
  const uint32_t free_threads = threads > running_ ? threads - running_ : 0;
  for (const FairNode* group : root_.children()) {
    for (const FairNode* plan_node : group->children()) {
      const auto* client =
          static_cast<const Client*>(plan_node->First()->First());
      const Plan& plan = *client->peer->plan;
      if (limited && plan.running >= std::max<uint32_t>(1, free_threads)) {
        continue;
      }
      return client->NextLane();
    }
  }
  return nullptr;
}

uint64_t FairQueue::RowsPerTask(const Lane& lane) const {
  if (options_.task_nanos == 0) return UINT64_MAX;
  const double row = lane.client_->peer->plan->row_nanos;
  // Not measured yet: one row, so that the first task is as short as possible.
  if (row <= 0) return 1;
  const double rows = static_cast<double>(options_.task_nanos) / row;
  return rows >= 1e9 ? 1'000'000'000
                     : std::max<uint64_t>(1, static_cast<uint64_t>(rows));
}

FairQueue::Turn FairQueue::Begin(Lane* lane, uint64_t rows, bool more) {
  Client& client = *lane->client_;
  Plan& plan = *client.peer->plan;
  Turn turn;
  turn.client = &client;
  turn.rows = rows;
  // Charged by an estimate now and corrected by End(), so that threads that
  // choose in the meantime do not all take work of the same client.
  turn.charged = static_cast<double>(rows) *
                 (plan.row_nanos > 0 ? plan.row_nanos : kUnknownRowNanos);
  client.NoteTurn();
  client.Charge(turn.charged);
  ++client.running;
  ++plan.running;
  ++running_;
  // `lane` is NextLane(): Next() has returned it, and nothing has changed
  // since.
  client.TakeTurn(more);
  if (client.waiting_calls.empty()) client.Leave();
  return turn;
}

void FairQueue::End(const Turn& turn, int64_t took, int64_t now) {
  Client& client = *turn.client;
  Plan& plan = *client.peer->plan;
  const auto nanos = static_cast<double>(std::max<int64_t>(took, 1));
  // The client is live, because `running` counts this turn. A client that is
  // not waiting is charged, too; its tag counts when it has work again.
  client.Charge(nanos - turn.charged);
  --client.running;
  --plan.running;
  --running_;
  client.last_seen = now;
  const double row = nanos / static_cast<double>(turn.rows);
  plan.row_nanos = row > plan.row_nanos
                       ? row
                       : plan.row_nanos + kNewPart * (row - plan.row_nanos);
  TurnWindow(now);
  client.TurnTo(window_);
  client.given += nanos;
  client.recent[1] += nanos;
  // Counted in the same window as the client's time, so the shares of all
  // clients sum up to 1.
  given_[1] += nanos;
  if (now - refreshed_ >= kRefreshNanos) Refresh(now);
}

bool FairQueue::NextIsAlone() const {
  // Without the limit of leaves_room, which depends on the number of threads.
  const Lane* const lane = Next(UINT32_MAX);
  return lane != nullptr && lane->client_->peer->plan->running == 0;
}

void FairQueue::TurnWindow(int64_t now) {
  if (now - window_begin_ < kWindowNanos) return;
  // Windows follow each other without a gap while there is work. After a pause
  // of two windows or more, both windows are empty and a new one begins now.
  const bool just_one = now - window_begin_ < 2 * kWindowNanos;
  window_ += just_one ? 1 : 2;
  window_begin_ = just_one ? window_begin_ + kWindowNanos : now;
  given_[0] = just_one ? given_[1] : 0;
  given_[1] = 0;
}

std::vector<FairQueue::Share> FairQueue::Shares(size_t max_shares,
                                                int64_t now) {
  TurnWindow(now);
  Refresh(now);
  const double all = given_[0] + given_[1];
  std::vector<Share> shares;
  for (const auto& [hash, plan] : plans_) {
    for (const auto& [address, peer] : plan->peers) {
      for (const auto& [name, client] : peer->clients) {
        client->TurnTo(window_);
        Share& share = shares.emplace_back();
        share.client = name;
        share.peer = address;
        share.dataset = plan->dataset;
        share.seconds = 1e-9 * client->given;
        share.recent_share =
            all > 0 ? (client->recent[0] + client->recent[1]) / all : 0;
        share.calls = client->calls.size();
      }
    }
  }
  std::sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) {
    return std::tie(b.recent_share, b.seconds, a.client) <
           std::tie(a.recent_share, a.seconds, b.client);
  });
  if (shares.size() > max_shares) shares.resize(max_shares);
  return shares;
}

}  // namespace millrace::pipeline
