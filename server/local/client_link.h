// ClientLink is a server's side of the memory that it shares with one client of
// its machine: slots that batches are filled in, their announcements, and what
// the client says on the link's socket. A call asks for a LocalCall and gives
// it to the engine as the memory of its batches.
//
// When the client is gone, breaks the rules or keeps memory that others need,
// the link ends: what was lent is forgotten (the client's own mappings stay
// good, and are its memory from then on), calls under way go on over gRPC.
//
// Thread-safe. Owns the socket. Reservations are given back without locks held,
// because whoever waited for them runs at once.

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

namespace millrace {

class ClientLink : public std::enable_shared_from_this<ClientLink> {
 public:
  // An idle slot is kept so long for the next batch, and while others wait for
  // memory.
  static constexpr absl::Duration kKeepIdle = absl::Seconds(10);
  static constexpr absl::Duration kKeepIdlePressed = absl::Milliseconds(100);

  ClientLink(UniqueFd socket, SameHostId id,
             std::shared_ptr<SharedMemoryLimits> limits);
  ~ClientLink();
  ClientLink(const ClientLink&) = delete;
  ClientLink& operator=(const ClientLink&) = delete;

  const SameHostId& id() const { return id_; }
  int socket() const { return socket_.get(); }

  // The memory for the batches of a call of this number.
  std::shared_ptr<PayloadMemory> BeginCall(uint64_t call);

  // InvalidArgument: the client breaks the rules; the link is to be ended.
  absl::Status OnMessage(const SameHostMessage& message);

  // Drops slots that nobody needs now. DeadlineExceeded: while others wait for
  // memory, the client has given nothing back for `timeout`, or has kept a
  // batch for as long as giving back all slots one by one at that pace would
  // take.
  absl::Status Tick(absl::Duration timeout);

  // Ends it. Idempotent.
  void End();

  // Slots that the client has not given back.
  uint64_t lent() const;

 private:
  class Call;
  // Gives everything back when it goes: to be destroyed without the lock.
  struct Memory {
    SealedMemory mapping;
    ByteBudget::Reservation reservation;
  };

  uint8_t* Take(uint64_t bytes);
  void Give(uint8_t* data);
  std::optional<PayloadMemory::Lent> Lend(uint8_t* data, uint64_t call,
                                          uint64_t* sequence);
  void TakeBack(const PayloadMemory::Lent& lent);
  void CallIsOver(uint64_t call);

  std::optional<uint64_t> SlotAt(const uint8_t* data) MR_REQUIRES(mu_);
  // Tells the client to unmap them; the budget has their bytes back when it
  // says so.
  void Drop(const std::vector<uint64_t>& slots, std::vector<Memory>* over)
      MR_REQUIRES(mu_);
  void Forget(Memory memory);
  void ForgetAll(std::vector<Memory> memories) {
    for (Memory& memory : memories) Forget(std::move(memory));
  }

  const UniqueFd socket_;
  const SameHostId id_;
  const std::shared_ptr<SharedMemoryLimits> limits_;

  mutable Mutex mu_;
  bool ended_ MR_GUARDED_BY(mu_) = false;
  SlotTable slots_ MR_GUARDED_BY(mu_);
  uint64_t bytes_ MR_GUARDED_BY(mu_) = 0;  // of slots and of dropped_
  std::map<uint64_t, Memory> memory_ MR_GUARDED_BY(mu_);  // by slot
  // Unmapped here, maybe not yet there.
  std::map<uint64_t, ByteBudget::Reservation> dropped_ MR_GUARDED_BY(mu_);
  SteadyTime last_release_ MR_GUARDED_BY(mu_);
  std::set<uint64_t> calls_ MR_GUARDED_BY(mu_);  // under way
  // Calls that the client gave up before they began here; the newest ones.
  std::deque<uint64_t> ended_early_ MR_GUARDED_BY(mu_);
  // Calls under way that the client gave up.
  std::set<uint64_t> given_up_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_LOCAL_CLIENT_LINK_H_
