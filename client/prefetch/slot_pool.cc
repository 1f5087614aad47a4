#include "client/prefetch/slot_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/logging.h"

namespace millrace::prefetch {
namespace {

// Bytes of a slot for batches without payload, which still need an address.
constexpr uint64_t kEmptySlotBytes = 64;

}  // namespace

SlotPool::SlotPool(std::shared_ptr<SlotAllocator> allocator, uint32_t slots,
                   uint64_t slot_bytes)
    : allocator_(std::move(allocator)),
      slots_(slots),
      slot_bytes_(slot_bytes == 0 ? kEmptySlotBytes : slot_bytes) {
  all_.reserve(slots);
  free_.reserve(slots);
}

SlotPool::SlotPool(std::shared_ptr<OfferedSlots> offered, uint32_t slots,
                   uint64_t slot_bytes)
    : offered_(std::move(offered)),
      allocator_(offered_),
      slots_(slots),
      slot_bytes_(slot_bytes == 0 ? kEmptySlotBytes : slot_bytes) {
  all_.reserve(slots);
  free_.reserve(slots);
}

SlotPool::~SlotPool() {
  // All slots are free: every lease holds the pool.
  for (uint8_t* slot : all_) allocator_->Free(slot, slot_bytes_);
}

uint8_t* SlotPool::TakeLocked() {
  if (!free_.empty()) {
    uint8_t* slot = free_.back();
    free_.pop_back();
    // The slots below stay untouched: the stack is used from the back.
    untouched_ = std::min(untouched_, free_.size());
    return slot;
  }
  // Allocated under the lock, though it may take milliseconds: only when a slot
  // is used for the first time, or after a trim.
  MR_CHECK(all_.size() < slots_) << "more slots are taken than the pool has";
  uint8_t* slot = allocator_->Allocate(slot_bytes_);
  if (slot != nullptr) all_.push_back(slot);
  return slot;
}

absl::StatusOr<uint8_t*> SlotPool::Take() {
  MutexLock lock(mu_);
  uint8_t* slot = TakeLocked();
  if (slot != nullptr) return slot;
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for batch slot ", all_.size() + 1, " of ", slots_,
                   " with ", FormatByteSize(slot_bytes_),
                   "; use a smaller window, or give the process more memory"));
}

uint8_t* SlotPool::TryTake() {
  MutexLock lock(mu_);
  return TakeLocked();
}

std::shared_ptr<void> SlotPool::Lease(uint8_t* slot) {
  // Before the consumer has the lease (see held_).
  held_.fetch_add(1);
  if (offered_ != nullptr) {
    {
      MutexLock lock(mu_);
      all_.erase(std::find(all_.begin(), all_.end(), slot));
    }
    offered_->Deliver(slot);
    return std::shared_ptr<void>(
        slot, [pool = shared_from_this()](void*) { pool->CountReleased(); });
  }
  return std::shared_ptr<void>(slot,
                               [pool = shared_from_this()](void* released) {
                                 pool->Release(static_cast<uint8_t*>(released));
                               });
}

void SlotPool::OnRelease(std::function<void()> callback) {
  MutexLock lock(callback_mu_);
  callback_ = std::move(callback);
}

std::shared_ptr<void> SlotPool::LeaseShared(std::shared_ptr<void> memory) {
  held_.fetch_add(1);
  void* const data = memory.get();
  return std::shared_ptr<void>(
      data,
      [pool = shared_from_this(), memory = std::move(memory)](void*) mutable {
        // The memory is released first: a thread that sees the lower count
        // finds it given back.
        memory.reset();
        pool->CountReleased();
      });
}

void SlotPool::BeginTrim() {
  MutexLock lock(mu_);
  // All free slots. TakeLocked() lowers it as the stack shrinks. Nothing raises
  // it, because slots that come back are pushed on top.
  untouched_ = free_.size();
}

bool SlotPool::TrimOne(uint32_t keep) {
  uint8_t* slot = nullptr;
  {
    MutexLock lock(mu_);
    if (offered_ != nullptr || untouched_ == 0 || all_.size() <= keep) {
      return false;
    }
    // The front was free for the longest time and is untouched. Slots are few,
    // so moving the others is cheap.
    slot = free_.front();
    free_.erase(free_.begin());
    --untouched_;
    all_.erase(std::find(all_.begin(), all_.end(), slot));
  }
  // Without the lock: freeing page-locked memory may take milliseconds. No
  // other thread knows the slot any more.
  allocator_->Free(slot, slot_bytes_);
  return true;
}

void SlotPool::PutBack(uint8_t* slot) {
  MutexLock lock(mu_);
  free_.push_back(slot);
}

void SlotPool::Release(uint8_t* slot) {
  PutBack(slot);
  CountReleased();
}

void SlotPool::CountReleased() {
  // The slot is in free_ already: a thread that sees the lower count can take
  // it.
  held_.fetch_sub(1);
  // Held during the call, so that OnRelease(nullptr) returns only when none
  // runs. The callback must not release a lease itself.
  MutexLock lock(callback_mu_);
  if (callback_) callback_();
}

}  // namespace millrace::prefetch
