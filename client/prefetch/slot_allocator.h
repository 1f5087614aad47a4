// SlotAllocator is the source of the memory that received batches lie in:
// plain, page-locked or shared. The loader knows no kind of memory but this
// interface, and so neither CUDA nor libtorch.
//
// Thread-safe. The loader owns each slot from Allocate() to Free().
//
//   std::shared_ptr<SlotAllocator> allocator = NewPlainSlotAllocator();
//   uint8_t* slot = allocator->Allocate(bytes);
//   allocator->Free(slot, bytes);

#ifndef MILLRACE_CLIENT_PREFETCH_SLOT_ALLOCATOR_H_
#define MILLRACE_CLIENT_PREFETCH_SLOT_ALLOCATOR_H_

#include <cstdint>
#include <memory>

namespace millrace::prefetch {

class SlotAllocator {
 public:
  virtual ~SlotAllocator() = default;
  // 64-byte aligned; nullptr when there is no memory.
  virtual uint8_t* Allocate(uint64_t bytes) = 0;
  // `bytes` is the size that Allocate() was called with.
  virtual void Free(uint8_t* data, uint64_t bytes) = 0;
};

// malloc'd memory; large slots are advised to lie in huge pages.
std::shared_ptr<SlotAllocator> NewPlainSlotAllocator();

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_SLOT_ALLOCATOR_H_
