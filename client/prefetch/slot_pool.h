// SlotPool is the fixed set of slots that a loader receives batches into. A
// slot is free, being filled, or leased to the consumer; it is reused when the
// last copy of its lease dies. The pool takes memory from the allocator when a
// slot is first used. The slot that came back last is used first, so that a
// fast consumer works in few, warm slots. TrimOne() gives memory of unused
// slots back to the allocator.
//
// Over OfferedSlots, a slot leaves the pool when it is leased: it is the
// caller's again. The pool reuses only slots that come back by PutBack().
//
// What it is not: it knows no batch and no request.
//
// Thread-safe. Leases share ownership of the pool, so they may outlive the
// loader.
//
//   MR_ASSIGN_OR_RETURN(uint8_t* slot, pool->Take());
//   ... fill ...
//   batch.lease = pool->Lease(slot);

#ifndef MILLRACE_CLIENT_PREFETCH_SLOT_POOL_H_
#define MILLRACE_CLIENT_PREFETCH_SLOT_POOL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/prefetch/offered_slots.h"
#include "client/prefetch/slot_allocator.h"
#include "common/mutex.h"

namespace millrace::prefetch {

class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  SlotPool(std::shared_ptr<SlotAllocator> allocator, uint32_t slots,
           uint64_t slot_bytes);
  // Over the caller's memory, of which at most `slots` buffers are used.
  SlotPool(std::shared_ptr<OfferedSlots> offered, uint32_t slots,
           uint64_t slot_bytes);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  // A free slot to fill. ResourceExhausted: the allocator has no memory. Taking
  // more than slots() is a bug of the caller.
  absl::StatusOr<uint8_t*> Take();

  // As Take(), for a slot that the caller can do without: nullptr when there is
  // no memory.
  uint8_t* TryTake();

  // Counts the slot as held until the last copy of the result dies. Over
  // OfferedSlots only the count belongs to the result, not the slot.
  std::shared_ptr<void> Lease(uint8_t* slot);

  // The same for a batch in memory outside of the pool: `memory` is released
  // when the last copy of the result dies.
  std::shared_ptr<void> LeaseShared(std::shared_ptr<void> memory);

  // Returns a slot that was taken and is not leased after all.
  void PutBack(uint8_t* slot);

  // Begins to watch which slots are used.
  void BeginTrim();
  // Gives back the memory of one slot that was free ever since BeginTrim(), as
  // long as more than `keep` slots have memory. False: there is no such slot,
  // or the memory is the caller's.
  bool TrimOne(uint32_t keep);

  // `callback` runs after each death of a lease, on the thread of that death.
  // An empty function removes it: when OnRelease() returns, none is running.
  void OnRelease(std::function<void()> callback);

  uint32_t slots() const { return slots_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint32_t held() const { return held_.load(); }
  // Null: the pool's memory is the allocator's.
  const OfferedSlots* offered() const { return offered_.get(); }

 private:
  uint8_t* TakeLocked() MR_REQUIRES(mu_);
  void Release(uint8_t* slot);
  void CountReleased();

  const std::shared_ptr<OfferedSlots> offered_;  // the allocator, or null
  const std::shared_ptr<SlotAllocator> allocator_;
  const uint32_t slots_;
  const uint64_t slot_bytes_;
  // Number of live leases, of slots and of shared memory. Atomic, so that any
  // thread may read it without a lock. A lease is counted before the consumer
  // has it, and a slot is in free_ before its lease stops counting: a thread
  // that sees the count fall can take the slot.
  std::atomic<uint32_t> held_{0};
  Mutex mu_;
  // Every slot that has memory, at most slots_; slots that are not in free_ are
  // being filled or leased.
  std::vector<uint8_t*> all_ MR_GUARDED_BY(mu_);
  // A stack: the slot at the back came back last and is taken first.
  std::vector<uint8_t*> free_ MR_GUARDED_BY(mu_);
  // The first `untouched_` entries of free_ were free ever since BeginTrim().
  size_t untouched_ MR_GUARDED_BY(mu_) = 0;
  // Held while callback_ runs, so that OnRelease(nullptr) waits for its end.
  // Never taken together with mu_.
  Mutex callback_mu_;
  std::function<void()> callback_ MR_GUARDED_BY(callback_mu_);
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_SLOT_POOL_H_
