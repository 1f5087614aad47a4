#include "client/prefetch/slot_allocator.h"

#include <sys/mman.h>

#include <cstdlib>

namespace millrace::prefetch {
namespace {

constexpr uint64_t kSlotAlignment = 64;
constexpr uint64_t kHugePage = 2 << 20;

class PlainSlotAllocator final : public SlotAllocator {
 public:
  uint8_t* Allocate(uint64_t bytes) override {
    // Huge pages cost fewer page faults and TLB misses. The kernel may ignore
    // the advice.
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

}  // namespace millrace::prefetch
