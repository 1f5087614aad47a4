#include "client/prefetch/offered_slots.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/logging.h"

namespace millrace::prefetch {
namespace {

constexpr uintptr_t kAlignment = 64;

// Of `count` buffers, those that batches may fill: all but the spares, and at
// least one.
uint32_t RoomOf(uint32_t count, uint32_t spares) {
  return count > spares ? count - spares : std::min(count, 1u);
}

}  // namespace

// The caller's thread, any. A buffer is in lent_ from here until its batch is
// delivered or the loader stops, and in unused_ until the pool takes it.
absl::Status OfferedSlots::Offer(uint8_t* data, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  {
    MutexLock lock(mu_);
    if (stopped_) return absl::CancelledError("the loader was closed");
    const uint32_t max = slots_.load() + spares_.load();
    if (max == 0) {
      return absl::FailedPreconditionError(
          "memory was offered before the loader was open: the size of a batch "
          "is not known yet; wait until the loader is open");
    }
    if (data == nullptr) {
      return absl::InvalidArgumentError("the offered memory is NULL");
    }
    if (begin % kAlignment != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the offered memory is aligned to ", begin & (~begin + 1),
          " bytes; align it to ", kAlignment, " bytes"));
    }
    if (bytes < slot_bytes_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the offered memory has ", FormatExactByteSize(bytes),
          "; a batch has up to ", FormatExactByteSize(slot_bytes_)));
    }
    const uintptr_t end = begin + std::max<uint64_t>(bytes, 1);
    if (end < begin) {
      return absl::InvalidArgumentError(
          absl::StrCat("the offered memory of ", FormatExactByteSize(bytes),
                       " ends past the last address"));
    }
    const auto after = lent_.lower_bound(begin);
    if ((after != lent_.end() && after->first < end) ||
        (after != lent_.begin() && std::prev(after)->second > begin)) {
      return absl::InvalidArgumentError(
          "the offered memory overlaps memory that the loader has; offer it "
          "again when its batch was returned");
    }
    if (count_.load() >= max) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the loader has its maximum of ", max,
          " buffers: take a batch before you offer another buffer"));
    }
    // unused_ before the count: a thread that finds room by the count finds the
    // buffer in Allocate().
    lent_.emplace(begin, end);
    unused_.push_back(data);
    count_.fetch_add(1);
  }
  // After mu_ is released: the callback wakes the transport, which may take the
  // buffer at once on its own thread. callback_mu_ is held during the call, so
  // that OnOffer({}) waits for it.
  MutexLock lock(callback_mu_);
  if (callback_) callback_();
  return absl::OkStatus();
}

// Without the lock: the counts are independent, and an answer that is a buffer
// too high or too low is corrected by the next question. Offer() has the exact
// limit.
uint32_t OfferedSlots::Wanted(uint32_t window) const {
  const uint32_t all = std::min(window, slots_.load()) + spares_.load();
  return all - std::min(all, count_.load());
}

void OfferedSlots::Start(uint64_t slot_bytes, uint32_t slots, uint32_t spares) {
  MutexLock lock(mu_);
  slot_bytes_ = slot_bytes;
  slots_.store(slots);
  spares_.store(spares);
}

void OfferedSlots::OnOffer(std::function<void()> callback) {
  MutexLock lock(callback_mu_);
  callback_ = std::move(callback);
}

void OfferedSlots::Stop() {
  MutexLock lock(mu_);
  // The loader uses no buffer any more. Batches that the consumer still holds
  // are the caller's since Deliver(), so they are not in lent_.
  stopped_ = true;
  lent_.clear();
  unused_.clear();
  count_.store(0);
}

uint32_t OfferedSlots::room() const {
  return std::min(slots_.load(), RoomOf(count_.load(), spares_.load()));
}

uint32_t OfferedSlots::spares() const {
  const uint32_t count = count_.load();
  const uint32_t spares = spares_.load();
  return std::min(spares, count - RoomOf(count, spares));
}

void OfferedSlots::Deliver(const uint8_t* slot) {
  MutexLock lock(mu_);
  // The buffer leaves lent_ before the consumer sees the batch: the consumer
  // may offer the same memory again at once, and Offer() must not find it lent.
  MR_CHECK(lent_.erase(reinterpret_cast<uintptr_t>(slot)) == 1 || stopped_)
      << "a batch lies in memory that was not offered";
  if (!stopped_) count_.fetch_sub(1);
}

uint8_t* OfferedSlots::Allocate(uint64_t) {
  MutexLock lock(mu_);
  if (unused_.empty()) return nullptr;
  uint8_t* const slot = unused_.back();
  unused_.pop_back();
  return slot;
}

}  // namespace millrace::prefetch
