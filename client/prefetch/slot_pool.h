// SlotPool is the fixed set of slots that a loader receives batches into. A
// slot is free, being filled, or leased to the consumer; it is used again when
// the last copy of its lease dies. Memory is taken from the allocator when a
// slot is first used, and the slot that came back last is used first, so that
// a consumer that is fast enough works in few, warm slots. What was not used
// for a while may be given back to the allocator.
//
// Thread-safe. Leases share ownership: they may outlive the loader.
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
#include "client/prefetch/host_loader.h"
#include "common/mutex.h"

namespace millrace {

class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  SlotPool(std::shared_ptr<SlotAllocator> allocator, uint32_t slots,
           uint64_t slot_bytes);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  // A free slot to fill. ResourceExhausted: the allocator has no memory. It is
  // the caller's bug to take more than slots().
  absl::StatusOr<uint8_t*> Take();

  // As Take(), for what can be done without: nullptr when there is none.
  uint8_t* TryTake();

  // Counts the slot as held until the last copy of the result dies.
  std::shared_ptr<void> Lease(uint8_t* slot);

  // The same for a batch in memory that is not the pool's: `memory` is let go
  // of when the last copy of the result dies.
  std::shared_ptr<void> LeaseShared(std::shared_ptr<void> memory);

  // A slot that was taken and is not handed out after all.
  void PutBack(uint8_t* slot);

  // Begins to look which slots are needed.
  void BeginTrim();
  // Gives the memory of one slot back that was free all the time since
  // BeginTrim(), while there are more than `keep`. False: there is none.
  bool TrimOne(uint32_t keep);

  // Called after a lease has died, on the thread on which it did. An empty
  // function ends it: when this returns, none is running.
  void OnRelease(std::function<void()> callback);

  uint32_t slots() const { return slots_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint32_t held() const { return held_.load(); }

 private:
  uint8_t* TakeLocked() MR_REQUIRES(mu_);
  void Release(uint8_t* slot);
  void CountReleased();

  const std::shared_ptr<SlotAllocator> allocator_;
  const uint32_t slots_;
  const uint64_t slot_bytes_;
  // Leases that live, of slots and of shared memory. Atomic, so that any thread
  // may read it without a lock. A lease is counted before the consumer has it,
  // and a slot is in free_ before its lease is counted no more: a thread that
  // sees the count fall can take the slot.
  std::atomic<uint32_t> held_{0};
  Mutex mu_;
  // Every slot whose memory is taken from the allocator, at most slots_; those
  // that are not in free_ are being filled or leased.
  std::vector<uint8_t*> all_ MR_GUARDED_BY(mu_);
  // A stack: the slot at the back came back last and is taken first.
  std::vector<uint8_t*> free_ MR_GUARDED_BY(mu_);
  // The first so many of free_ were taken by nobody since BeginTrim().
  size_t untouched_ MR_GUARDED_BY(mu_) = 0;
  // Held while callback_ runs, so that OnRelease(nullptr) waits for its end.
  // Never taken together with mu_.
  Mutex callback_mu_;
  std::function<void()> callback_ MR_GUARDED_BY(callback_mu_);
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_SLOT_POOL_H_
