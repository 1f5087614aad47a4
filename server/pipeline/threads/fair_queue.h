// FairQueue chooses the work that a thread does next: plans share the threads'
// time, clients share the time of their plan, and the calls of a client take
// turns. Measured time is shared, not rows or calls: a plan with expensive
// rows gets fewer rows, and a client with a larger window gets no more time
// than another client.
//
// A loader requests its window in several calls and needs the earliest batch
// first. So the earliest call of a loader (Sharer::first) has kEarliestTurns of
// its kTurns turns, and its other calls share the rest: a call that sends
// nothing for long counts as silent, and the loader requests its steps again.
//
// Limits for a peer (an address): all plans of the peer together have the
// weight of one plan, and its clients of one plan have at most the weight of
// kMaxClientsOfPeer clients. So neither many seeds nor many client ids give
// more time. A plan that several peers use counts for none of them.
//
// An idle client saves up no time. A new client begins at the present: it waits
// for the running tasks, but not for the time that other clients got before.
//
// It holds no work itself, runs nothing and reads no clock. Not thread-safe:
// the scheduler's mutex guards it.
//
//   queue.Push(lane, now);                 // the lane has work
//   while (auto* lane = queue.Next(threads)) {
//     auto turn = queue.Begin(lane, rows, /*more=*/...);
//     ...
//     queue.End(turn, took, now);
//   }

#ifndef MILLRACE_SERVER_PIPELINE_THREADS_FAIR_QUEUE_H_
#define MILLRACE_SERVER_PIPELINE_THREADS_FAIR_QUEUE_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/pipeline/threads/fair_node.h"

namespace millrace::pipeline {

// The client and plan that work is done for. One object for each call; it lives
// as long as the call.
struct Sharer {
  // The first batch of a call, and a number that rises with each call: of two
  // calls for the same batches, the older one is first.
  struct Position {
    uint64_t epoch = 0;
    uint64_t step = 0;
    uint64_t call = 0;
    auto operator<=>(const Position&) const = default;
  };

  std::string plan;     // its hash: calls with one hash share one plan's part
  double weight = 1;    // of the plan beside others; above 0
  std::string client;   // an id, or the connection's address
  std::string peer;     // address without the port
  std::string dataset;  // of the plan's first source, for people
  // Set where `client` is the id of one loader. Absent: the calls have no order
  // and equal turns, because they may serve several loaders.
  std::optional<Position> first;
};

class FairQueue {
 public:
  static constexpr uint32_t kMaxClientsOfPeer = 16;
  // Idle clients are remembered for this time, and at most this number of them.
  static constexpr int64_t kForgetNanos = 60'000'000'000;
  static constexpr uint64_t kMaxIdleClients = 1024;
  // Of kTurns turns of a loader, the earliest call has kEarliestTurns, if other
  // calls wait. A choice: the earliest batch takes a third longer than alone,
  // and a second call is silent for four times as long as alone.
  static constexpr uint32_t kTurns = 4;
  static constexpr uint32_t kEarliestTurns = 3;

  struct Options {
    // Intended time of a task in nanoseconds, by the measured time of a row; at
    // least one row. 0: no limit.
    int64_t task_nanos = 0;
    // With several plans, no plan has more threads than stay free. For work
    // that waits, so that a new plan does not find all threads blocked.
    bool leaves_room = false;
  };

 private:
  class Client;

 public:
  // A lane of work: a part of a call. The thread that adds work owns it; the
  // FairQueue holds it, too, while it has work.
  class Lane {
   public:
    // Of the lanes of a call with Sharer::first, those with the lowest `order`
    // have all turns; other lanes of a call take turns. Null: the lane shares
    // the turns of all lanes without a sharer.
    explicit Lane(std::shared_ptr<const Sharer> sharer = nullptr,
                  uint64_t order = 0)
        : sharer_(std::move(sharer)),
          order_(sharer_ != nullptr && sharer_->first ? order : 0) {}
    virtual ~Lane() = default;

   private:
    friend class FairQueue;
    const std::shared_ptr<const Sharer> sharer_;
    const uint64_t order_;
    // Null before the lane's first work. The client lives as long as the
    // sharer.
    Client* client_ = nullptr;
  };

  // A task that a thread has begun.
  struct Turn {
    Client* client = nullptr;  // null: none
    uint64_t rows = 0;
    double charged = 0;
  };

  // The time that a client has used.
  struct Share {
    std::string client;
    std::string peer;
    std::string dataset;
    double seconds = 0;       // since its first call
    double recent_share = 0;  // 0-1 of what all were given in the last seconds
    uint64_t calls = 0;       // now
  };

  explicit FairQueue(Options options);
  ~FairQueue();

  // Adds a lane that had no work and has some from now on. `now`: nanoseconds
  // of any steady clock.
  void Push(const std::shared_ptr<Lane>& lane, int64_t now);
  // Removes a lane that has no work any more.
  void Remove(Lane* lane);

  bool empty() const { return !root_.has_waiting(); }

  // The lane with the next turn on one of `threads` threads. Null: no lane has
  // work, or no task may begin before another one ends.
  Lane* Next(uint32_t threads) const;

  // Rows for a task of the lane, at least 1.
  uint64_t RowsPerTask(const Lane& lane) const;

  // A thread begins `rows` rows of Next()'s lane. `more`: the lane has work
  // left.
  Turn Begin(Lane* lane, uint64_t rows, bool more);
  // The task of the turn is over; it took `took` nanoseconds.
  void End(const Turn& turn, int64_t took, int64_t now);

  // True: no thread works for the plan of Next()'s lane.
  bool NextIsAlone() const;

  // The clients of the last minute with the most time, at most `max_shares`, in
  // the order of their time.
  std::vector<Share> Shares(size_t max_shares, int64_t now);

 private:
  struct PeerOfPlan;
  struct Plan;
  struct Group;

  Client* Join(const std::shared_ptr<const Sharer>& sharer, int64_t now);
  // Counts the clients and peers that use the plan, and sets the weights.
  // Forgets clients that are gone; with `forget`, also those of the last
  // minute.
  void CountPlan(Plan& plan, int64_t now, bool forget);
  // The same for all plans.
  void Refresh(int64_t now);
  // Moves the plan to the group that fits the peers that use it now.
  void Place(Plan* plan);
  void TurnWindow(int64_t now);

  const Options options_;
  const std::shared_ptr<const Sharer> nobody_ =
      std::make_shared<const Sharer>();
  FairNode root_;
  // By peer ("peer ...") or by plan ("plan ...").
  std::map<std::string, std::unique_ptr<Group>> groups_;
  std::map<std::string, std::unique_ptr<Plan>> plans_;
  uint64_t clients_ = 0;
  uint32_t live_plans_ = 0;
  uint32_t running_ = 0;
  int64_t refreshed_ = 0;
  // given_: time of all clients in the window before the current one, and in
  // the current one. window_ is the number of the current window.
  int64_t window_begin_ = 0;
  uint64_t window_ = 0;
  double given_[2] = {0, 0};
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_THREADS_FAIR_QUEUE_H_
