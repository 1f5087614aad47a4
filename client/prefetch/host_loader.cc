#include "client/prefetch/host_loader.h"

#include <sys/mman.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr uint64_t kSlotAlignment = 64;
constexpr uint64_t kHugePage = 2 << 20;

class PlainSlotAllocator final : public SlotAllocator {
 public:
  uint8_t* Allocate(uint64_t bytes) override {
    // A large slot in huge pages costs fewer page faults and TLB misses; the
    // kernel need not give them.
    const bool large = bytes >= 2 * kHugePage;
    const uint64_t alignment = large ? kHugePage : kSlotAlignment;
    const uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
    if (rounded < bytes) return nullptr;
    void* data = std::aligned_alloc(alignment, rounded);
    if (large && data != nullptr) madvise(data, rounded, MADV_HUGEPAGE);
    return static_cast<uint8_t*>(data);
  }
  void Free(uint8_t* data, uint64_t) override { std::free(data); }
};

}  // namespace

std::shared_ptr<SlotAllocator> NewPlainSlotAllocator() {
  return std::make_shared<PlainSlotAllocator>();
}

absl::Status HostLoaderOptions::Validate() const {
  if (endpoint.empty()) {
    return absl::InvalidArgumentError(
        "no endpoint: give host:port of a data server");
  }
  if (world_size == 0) {
    return absl::InvalidArgumentError("world size 0: there is at least 1 rank");
  }
  if (rank >= world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " does not exist in a world of ",
                     world_size, ": ranks count from 0"));
  }
  constexpr uint32_t kMostSlots = 1 << 16;
  if (window == 1 || window > kMostSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("a window of ", window,
                     " batches: give 0 for one that follows what is measured, "
                     "or 2 to ",
                     kMostSlots));
  }
  if (window != 0 && initial_window != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a fixed window of ", window, " and an initial one of ", initial_window,
        ": give only one; the initial one is where a window begins that "
        "follows what is measured"));
  }
  if (open_timeout <= absl::ZeroDuration() ||
      next_timeout <= absl::ZeroDuration() ||
      step_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("a timeout must be longer than 0");
  }
  if (!(hedge_share >= 0 && hedge_share <= 1) ||
      hedge_floor < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a hedge share of ", hedge_share, " with a floor of ",
        absl::FormatDuration(hedge_floor),
        ": give a share of the steps from 0 (never) to 1, and a floor that is "
        "not negative"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
