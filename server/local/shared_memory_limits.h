// SharedMemoryLimits counts and bounds the memory that a server shares with all
// clients on its machine. Clients decide when lent memory returns, so the bound
// always leaves room for batches that are sent.
//
// Thread-safe. Outlives every link.

#ifndef MILLRACE_SERVER_LOCAL_SHARED_MEMORY_LIMITS_H_
#define MILLRACE_SERVER_LOCAL_SHARED_MEMORY_LIMITS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "common/byte_budget.h"

namespace millrace::local {

class SharedMemoryLimits {
 public:
  // Slots of one link. Far above any window, so that the socket of a link has
  // room for a message about each.
  static constexpr size_t kMaxSlots = 128;

  // `batch_bytes`: what the budget has for batches. Half of it may be shared.
  SharedMemoryLimits(ByteBudget* budget, uint64_t batch_bytes)
      : budget_(budget), batch_bytes_(batch_bytes) {}

  // Reserves memory for a slot of `bytes` in total, for a link that already has
  // `link_bytes`. Fails while other clients wait for memory, and if two further
  // batches of this size would then find no room.
  bool TryReserve(uint64_t bytes, uint64_t link_bytes,
                  ByteBudget::Reservation* reservation) {
    const uint64_t limit = LimitFor(bytes);
    const uint64_t share = limit / std::max<uint64_t>(1, links_.load());
    if (bytes > share || link_bytes > share - bytes) return false;
    if (bytes_.fetch_add(bytes) + bytes > limit ||
        !budget_->TryReserve(bytes, reservation)) {
      bytes_.fetch_sub(bytes);
      return false;
    }
    return true;
  }
  void Release(ByteBudget::Reservation reservation) {
    bytes_.fetch_sub(reservation.bytes());
  }

  // Whether a link with `link_bytes` has more than an equal share.
  bool AboveShare(uint64_t link_bytes) const {
    return link_bytes > batch_bytes_ / 2 / std::max<uint64_t>(1, links_.load());
  }

  // Others wait for memory.
  bool Pressed() const { return budget_->waiting() > 0; }

  std::atomic<uint64_t>& links() { return links_; }
  std::atomic<uint64_t>& batches_lent() { return batches_lent_; }
  uint64_t bytes() const { return bytes_.load(); }

 private:
  uint64_t LimitFor(uint64_t bytes) const {
    if (bytes > batch_bytes_ / 2) return 0;
    return std::min(batch_bytes_ / 2, batch_bytes_ - 2 * bytes);
  }

  ByteBudget* const budget_;
  const uint64_t batch_bytes_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> links_{0};
  std::atomic<uint64_t> batches_lent_{0};
};

}  // namespace millrace::local

#endif  // MILLRACE_SERVER_LOCAL_SHARED_MEMORY_LIMITS_H_
