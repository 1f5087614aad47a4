// ClientShares divides the memory for batches among the streaming clients, so
// that slow readers do not hold the memory that other clients need. It counts
// the steps that each call has requested from the engine and not yet sent, and
// decides when a call may request more. It holds no memory itself.
//
// A client is identified by its id, or by its connection if it has no id. A
// host is an address. All hosts have equal parts of three quarters of the
// memory; the last quarter is free for a new host. The connections of a host
// share the host's part equally, and the clients of a connection share the
// connection's part. With only one host, each part is small enough that one
// more client finds a part of the same size free. A client belongs to the
// connection of its first call. The calls of a client take turns.
//
// A host with nothing outstanding may always have one batch, and so may a
// connection within its host's part. A program can invent any number of client
// ids. A further client of a connection is therefore certain of one batch only
// within its own part or the connection's part; otherwise it gets one while
// half of the host's part is free.
//
// A connection is slow from SetSlow(true) to SetSlow(false): its client reads
// more slowly than the server sends. The bytes of slow connections do not count
// against another connection of the host that has nothing: that connection gets
// one batch within half of the free quarter. All slow connections of a host
// together keep the host's part; HostExcess() is what they hold above that
// part.
//
// A call whose client has nothing and whose batch is larger than the free rest
// would wait for ever while later, smaller batches take each byte that becomes
// free. After kPatience, later calls of its host with smaller batches wait
// behind that call, so that what is outstanding is sent and the batch fits. The
// bytes of slow connections do not become free soon: a call holds back no other
// call if its batch does not fit beside these bytes. Others wait at most as
// long as that call has waited before: it holds them back from 1 to 2, 4 to 8,
// 16 to 32, ... times kPatience. A call of a slow connection holds them back
// for one kPatience of 32.
//
// Thread-safe. Owns no thread: `on_room` runs on the thread that made room,
// without locks of its own.
//
//   ClientShares shares(engine->batch_budget_bytes());
//   auto member = shares.Join({host, id, bytes_of_a_step, [] { AskMore(); }});
//   const uint64_t steps = member->Take(8);  // 0: on_room is called later
//   ... one was sent: for (auto& on_room : member->Return(1)) on_room();

#ifndef MILLRACE_SERVER_RPC_CLIENT_SHARES_H_
#define MILLRACE_SERVER_RPC_CLIENT_SHARES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace millrace::rpc {

class ClientShares {
 public:
  struct Call {
    std::string host;
    std::string connection;   // one of the host's
    std::string client;       // one of the host's
    uint64_t step_bytes = 0;  // at most, of one batch
    // A call that waits has been granted a step: it is to Take() again.
    std::function<void()> on_room;
  };

  class Member;

  // Time that a call waits before it holds back later calls. A choice: many
  // small batches are sent within it, and a large batch for each of them is
  // soon enough for its client.
  static constexpr std::chrono::milliseconds kPatience{100};

  // `now`: the clock, which tests replace.
  explicit ClientShares(uint64_t bytes, std::function<SteadyTime()> now =
                                            &std::chrono::steady_clock::now)
      : bytes_(bytes), now_(std::move(now)) {}

  // A call begins. It ends when the member is destroyed, which must happen
  // before `this` ends and without the locks that on_room takes.
  std::unique_ptr<Member> Join(Call call);

  // The number of calls that wait for on_room and whose clients have nothing
  // outstanding and a right to one batch. The excess of other clients is taken
  // back for them.
  uint64_t starving() const;

  // The on_room of calls that were held back and have room now, to be called
  // without locks. To be called now and then: time alone ends a hold.
  [[nodiscard]] std::vector<std::function<void()>> Look();

  // A host that holds its whole part while some of its clients have nothing.
  struct FullHost {
    std::string host;
    uint64_t clients = 0;           // that have nothing
    uint64_t connections = 0;       // of the host, on which clients stream
    uint64_t slow_connections = 0;  // of these
    uint64_t batch_bytes = 0;       // the largest that one of them waits for
    uint64_t held_bytes = 0;        // requested and not yet sent
    uint64_t share_bytes = 0;       // the host's part
    // Memory for batches that would give each of these clients one batch,
    // whatever the other connections of the host hold: excess is taken back
    // (Excess()).
    uint64_t needed_bytes = 0;
  };

  // The hosts with a client that has had nothing since `before`, not counting
  // the time before `since`.
  std::vector<FullHost> FullHosts(SteadyTime before, SteadyTime since) const;

 private:
  // Sums over the steps outstanding, in bytes; each level is the sum of those
  // below it. Entries live as long as a call of theirs.
  struct Connection {
    uint64_t outstanding_bytes = 0;
    uint64_t clients = 0;
    bool slow = false;
  };
  using Connections = std::map<std::string, Connection>;
  struct Client {
    // Of the host; that on which the client's first call came. Constant.
    Connections::iterator connection;
    uint64_t outstanding_bytes = 0;
    // When outstanding_bytes became 0; of no use while it is above.
    SteadyTime nothing_since;
    uint64_t calls = 0;
  };
  struct Host {
    uint64_t outstanding_bytes = 0;
    uint64_t slow_bytes = 0;  // the part of it of slow connections
    Connections connections;
    std::map<std::string, Client> clients;
    // Connections that were slow when their last call ended: the next call of
    // one is slow from the start. Bounded (kMaxRemembered).
    std::set<std::string> were_slow;
  };

  // Parts in bytes, as of now: they change with every host, connection and
  // client that comes or goes.
  uint64_t HostShare() const MR_REQUIRES(mu_);
  // Of each connection of the host, which has `clients`.
  uint64_t ConnectionShare(const Host& host, uint64_t clients) const
      MR_REQUIRES(mu_);
  uint64_t ClientShare(const Member& member) const MR_REQUIRES(mu_);
  // Steps that the call may have outstanding, at least 1.
  uint64_t Window(const Member& member) const MR_REQUIRES(mu_);
  // The call may have one more step now.
  bool HasRoom(const Member& member) const MR_REQUIRES(mu_);
  // One more batch of the call would be more than its host's part, and the call
  // has no right to one beside slow connections.
  // `drained`: as if connections that are not slow had nothing outstanding.
  bool HostIsFull(const Member& member, bool drained = false) const
      MR_REQUIRES(mu_);
  // A call that waits for longer than `member` holds `member` back.
  bool IsHeldBack(const Member& member) const MR_REQUIRES(mu_);
  // The call's client has nothing outstanding and a right to one batch.
  bool IsStarving(const Member& member) const MR_REQUIRES(mu_);
  // A connection of the host that is not slow has nothing and waits.
  bool APromptOneWaits(const Host& host) const MR_REQUIRES(mu_);
  // Another call must have its first batch before `member` gets more.
  bool MustYield(const Member& member) const MR_REQUIRES(mu_);
  // Add to and subtract from all sums that the steps are part of.
  void Count(Member* member, uint64_t steps) MR_REQUIRES(mu_);
  void Uncount(Member* member, uint64_t steps) MR_REQUIRES(mu_);
  // Grants steps to calls that wait, as long as one has room, and returns their
  // on_room, to be called without the lock. To be called whenever room was
  // made, under the same lock: a step that no waiting call may have is then
  // free for Take().
  std::vector<std::function<void()>> Grant() MR_REQUIRES(mu_);

  const uint64_t bytes_;
  const std::function<SteadyTime()> now_;
  mutable Mutex mu_;
  std::map<std::string, Host> hosts_ MR_GUARDED_BY(mu_);
  uint64_t outstanding_bytes_ MR_GUARDED_BY(mu_) = 0;
  // Calls whose last Take() gave nothing, first come first; they are in here
  // exactly while their waits_ is set.
  std::list<Member*> waiting_ MR_GUARDED_BY(mu_);
};

// One call's part. Thread-safe.
class ClientShares::Member {
 public:
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Takes up to `max` steps (at least 1): what is missing to the call's
  // window, that is its part, at least 1, once half of it is gone. 0: none now.
  // Then the call's own Return() makes room, or on_room says that there is.
  uint64_t Take(uint64_t max);

  // So many steps were sent or given up. Returns the on_room of calls that have
  // room now: to be called without locks.
  [[nodiscard]] std::vector<std::function<void()>> Return(uint64_t steps);

  // The call is given up: it has nothing outstanding any more.
  [[nodiscard]] std::vector<std::function<void()>> ReturnAll();

  // Whether the call's connection is slow. Returns like Return().
  [[nodiscard]] std::vector<std::function<void()>> SetSlow(bool slow);

  // Steps of the client that the slow connections of its host have outstanding
  // above the host's part, while one that is not slow has nothing and waits. 0
  // when the call's connection is not slow.
  uint64_t HostExcess() const;

  // Steps that the client has outstanding above its part, or as one of several
  // clients above the connection's. Parts shrink as clients come. The only one
  // of a connection is never above them.
  uint64_t Excess() const;

 private:
  friend class ClientShares;
  Member(ClientShares* shares, Call call);

  ClientShares* const shares_;
  const std::string host_name_;
  const std::string connection_name_;
  const std::string client_name_;
  const uint64_t step_bytes_;
  const std::function<void()> on_room_;
  Host* host_ = nullptr;      // of the maps, constant
  Client* client_ = nullptr;  // likewise
  // Guarded by shares_->mu_. outstanding_ counts steps from Take() or a grant
  // to Return(); granted_ is the part of it that Take() has not handed out yet.
  uint64_t outstanding_ = 0;
  uint64_t granted_ = 0;
  bool waits_ = false;      // is in waiting_
  SteadyTime waits_since_;  // of waits_
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_CLIENT_SHARES_H_
