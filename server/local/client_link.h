// ClientLink is the server's side of the memory that it shares with one client
// on its machine: the slots that batches are filled into, the announcements of
// filled slots, and the client's messages on the link's socket. A call gets its
// PayloadMemory from BeginCall() and passes it to the engine as the memory of
// its batches.
//
// The link ends when the client disconnects, violates the protocol or keeps
// memory that other clients need. The server then no longer counts the lent
// memory (the client's mappings stay valid and belong to the client), and calls
// in progress continue over gRPC.
//
// Thread-safe. Owns the socket. Reservations are released without locks held,
// because requests that wait for them run at once.

#ifndef MILLRACE_SERVER_LOCAL_CLIENT_LINK_H_
#define MILLRACE_SERVER_LOCAL_CLIENT_LINK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/byte_budget.h"
#include "common/mutex.h"
#include "common/sealed_memory.h"
#include "common/unique_fd.h"
#include "proto/wire/same_host.h"
#include "server/batch/payload_memory.h"
#include "server/local/shared_memory_limits.h"
#include "server/local/slot_table.h"

namespace millrace::local {

class ClientLink : public std::enable_shared_from_this<ClientLink> {
 public:
  // Time that an idle slot is kept for the next batch, and the same while other
  // clients wait for memory: long enough that a slot in regular use is not
  // created again for each batch. Choices.
  static constexpr absl::Duration kKeepIdle = absl::Seconds(10);
  static constexpr absl::Duration kKeepIdlePressed = absl::Milliseconds(100);

  ClientLink(UniqueFd socket, wire::SameHostId id,
             std::shared_ptr<SharedMemoryLimits> limits);
  ~ClientLink();
  ClientLink(const ClientLink&) = delete;
  ClientLink& operator=(const ClientLink&) = delete;

  const wire::SameHostId& id() const { return id_; }
  int socket() const { return socket_.get(); }

  // The memory for the batches of the call with this number. Null: the link has
  // ended, the client has already given up the call, or a call with this number
  // is in progress; batches are then sent.
  std::shared_ptr<batch::PayloadMemory> BeginCall(uint64_t call);

  // InvalidArgument: the client violates the protocol; the caller must end the
  // link.
  absl::Status OnMessage(const wire::SameHostMessage& message);

  // Drops slots that have been idle for kKeepIdle (kKeepIdlePressed while other
  // clients wait for memory). DeadlineExceeded: while other clients wait for
  // memory, the client has returned nothing for `timeout`, or has kept one
  // batch for kMaxSlots times `timeout`.
  absl::Status Tick(absl::Duration timeout);

  // Ends the link: no further slot is lent, and memory that no thread is
  // filling is released. Idempotent; any thread.
  void End();

  // Slots that the client has not given back.
  uint64_t lent() const;

 private:
  class Call;
  // A slot's memory and what it counts for. To be destroyed without the lock,
  // by Forget(): the budget runs the callbacks of waiting requests at once.
  struct Memory {
    SealedMemory mapping;
    ByteBudget::Reservation reservation;
  };

  // PayloadMemory of all calls, on worker threads and on gRPC's.
  uint8_t* Take(uint64_t bytes);
  void Give(uint8_t* data);
  std::optional<batch::PayloadMemory::Lent> Lend(uint8_t* data, uint64_t call,
                                                 uint64_t* sequence);
  void TakeBack(const batch::PayloadMemory::Lent& lent);
  void CallIsOver(uint64_t call);

  std::optional<uint64_t> SlotAt(const uint8_t* data) MR_REQUIRES(mu_);
  // Unmaps slots here and tells the client to do the same; their bytes stay
  // counted, in dropped_, until the client says so. What the client could not
  // be told of goes to `over`.
  void Drop(const std::vector<uint64_t>& slots, std::vector<Memory>* over)
      MR_REQUIRES(mu_);
  // Gives memory back. Without the lock.
  void Forget(Memory memory);
  void ForgetAll(std::vector<Memory> memories) {
    for (Memory& memory : memories) Forget(std::move(memory));
  }

  // Read by the LocalServer's thread alone. Messages about slots are written
  // under mu_, without blocking, so that they go out in the order of the slots'
  // states.
  const UniqueFd socket_;
  const wire::SameHostId id_;
  const std::shared_ptr<SharedMemoryLimits> limits_;

  // Not held while a reservation is given back. The budget's lock is taken
  // without it.
  mutable Mutex mu_;
  // End() was called. From then on memory_ has only slots that threads are
  // filling, and each goes with its Give(). Never cleared.
  bool ended_ MR_GUARDED_BY(mu_) = false;
  SlotTable slots_ MR_GUARDED_BY(mu_);
  // Bytes of memory_ and dropped_ together, for the link's share; of no use
  // once ended_.
  uint64_t bytes_ MR_GUARDED_BY(mu_) = 0;
  // By slot: the same slots as those of slots_.
  std::map<uint64_t, Memory> memory_ MR_GUARDED_BY(mu_);
  // By slot: unmapped here, and not known to be unmapped by the client. Not in
  // slots_ any more.
  std::map<uint64_t, ByteBudget::Reservation> dropped_ MR_GUARDED_BY(mu_);
  // When the client last gave memory back, or had none.
  SteadyTime last_release_ MR_GUARDED_BY(mu_);
  // Numbers of calls from BeginCall() until their PayloadMemory is gone.
  std::set<uint64_t> calls_ MR_GUARDED_BY(mu_);
  // Calls that the client gave up before they began here: its message has
  // overtaken the call. The newest kMaxEndedEarly.
  std::deque<uint64_t> ended_early_ MR_GUARDED_BY(mu_);
  // Calls of calls_ that the client gave up: nothing more is lent to them.
  std::set<uint64_t> given_up_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::local

#endif  // MILLRACE_SERVER_LOCAL_CLIENT_LINK_H_
