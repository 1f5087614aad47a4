// OfferedSlots is memory that the caller of a loader lends it, buffer by
// buffer. Each buffer receives one batch and is the caller's again when the
// loader returns that batch: the loader never fills it a second time. For
// memory that a framework allocates and recycles by its own rules, such as
// page-locked memory.
//
// What it is not: it allocates and frees nothing. A SlotPool over it puts slots
// back that were filled for nothing (a hedge, a seek), and they are used again
// before the caller has seen them.
//
// How many steps may be requested: an outstanding or whole batch that is not
// delivered has one buffer, except that a late step may fill a second one, a
// spare. room() keeps `spares` buffers back for that, as far as there are any.
//
// Thread-safe. Wait-free for readers of the counts.
//
//   auto offered = std::make_shared<OfferedSlots>();
//   offered->Start(plan.max_payload_bytes(), slots, spares);   // the loader
//   MR_RETURN_IF_ERROR(offered->Offer(buffer, bytes));         // the caller

#ifndef MILLRACE_CLIENT_PREFETCH_OFFERED_SLOTS_H_
#define MILLRACE_CLIENT_PREFETCH_OFFERED_SLOTS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "client/prefetch/slot_allocator.h"
#include "common/mutex.h"

namespace millrace::prefetch {

class OfferedSlots final : public SlotAllocator {
 public:
  // --- the caller -----------------------------------------------------------

  // Lends `bytes` bytes at `data`, until the batch in them is delivered or the
  // loader has closed.
  // - InvalidArgument: null, not aligned to 64 bytes, smaller than a batch, or
  //   overlaps a buffer that is lent.
  // - ResourceExhausted: slots + spares buffers are lent already.
  // - FailedPrecondition: before Start().
  // - Cancelled: after Stop().
  absl::Status Offer(uint8_t* data, uint64_t bytes);

  // Buffers that are lent now.
  uint32_t count() const { return count_.load(); }

  // Buffers to lend now for a window of `window` batches and its spares.
  uint32_t Wanted(uint32_t window) const;

  // --- the loader -----------------------------------------------------------

  // From now on buffers of `slot_bytes` bytes are taken; at most `slots`
  // batches are outstanding or whole at a time, and `spares` steps fill a
  // second buffer.
  void Start(uint64_t slot_bytes, uint32_t slots, uint32_t spares);

  // `callback` runs after each Offer(), on its thread. An empty function
  // removes it: when OnOffer() returns, none is running.
  void OnOffer(std::function<void()> callback);

  // All buffers are the caller's from now on. After the last use by the loader.
  void Stop();

  // Max number of batches that may be outstanding or whole now.
  uint32_t room() const;
  // Max number of steps that may fill a second buffer now.
  uint32_t spares() const;

  // The buffer is the caller's: its batch is delivered.
  void Deliver(const uint8_t* slot);

  // The buffer that was lent last and is not in use, because its bytes may
  // still be in the processor's caches; nullptr: there is none.
  uint8_t* Allocate(uint64_t bytes) override;
  // Of a pool that ends: the buffer stays lent until Stop().
  void Free(uint8_t*, uint64_t) override {}

 private:
  // Changed under mu_ only. Delivering lowers it before the consumer's count of
  // batches rises, so a thread that reads that count and then this one never
  // finds more buffers than there are.
  std::atomic<uint32_t> count_{0};
  // Written by Start().
  std::atomic<uint32_t> slots_{0};
  std::atomic<uint32_t> spares_{0};
  Mutex mu_;
  uint64_t slot_bytes_ MR_GUARDED_BY(mu_) = 0;
  bool stopped_ MR_GUARDED_BY(mu_) = false;
  // Every buffer that is lent: first byte, and the first byte after it.
  std::map<uintptr_t, uintptr_t> lent_ MR_GUARDED_BY(mu_);
  // Of these, the buffers that the pool has not taken yet: a stack.
  std::vector<uint8_t*> unused_ MR_GUARDED_BY(mu_);
  // Held while callback_ runs. Never taken together with mu_.
  Mutex callback_mu_;
  std::function<void()> callback_ MR_GUARDED_BY(callback_mu_);
};

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_OFFERED_SLOTS_H_
