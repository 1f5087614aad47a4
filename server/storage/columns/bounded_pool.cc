#include "server/storage/columns/bounded_pool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "server/storage/columns/page_heap.h"

namespace millrace::storage {
namespace {

// More room is reserved in pieces of this size, so that a growing column does
// not make a request for every buffer.
constexpr uint64_t kGrowBytes = 1 << 20;

// Smaller buffers come from malloc: whole pages would waste most of their
// memory.
constexpr int64_t kHeapBytes = 32 << 10;
// A buffer that shrinks by less than this part stays in place.
constexpr int64_t kCutPart = 8;

class BasePool final : public arrow::MemoryPool {
 public:
  arrow::Status Allocate(int64_t size, int64_t alignment,
                         uint8_t** out) override {
    *out = New(size, alignment);
    if (*out == nullptr) {
      return arrow::Status::OutOfMemory("the system cannot provide ", size,
                                        " bytes");
    }
    stats_.DidAllocateBytes(size);
    return arrow::Status::OK();
  }

  arrow::Status Reallocate(int64_t old_size, int64_t new_size,
                           int64_t alignment, uint8_t** ptr) override {
    const bool in_heap =
        InHeap(old_size, alignment) && InHeap(new_size, alignment);
    uint8_t* moved = nullptr;
    // A buffer that has grown by doubling is cut at its end. The next buffer
    // needs the whole range again, and no allocation can use the cut pieces.
    if (in_heap && new_size < old_size - old_size / kCutPart) {
      moved = heap_.TakeIdle(new_size);
    }
    if (moved == nullptr &&
        !(in_heap && heap_.Resize(*ptr, old_size, new_size))) {
      moved = New(new_size, alignment);
      if (moved == nullptr) {
        return arrow::Status::OutOfMemory("the system cannot provide ",
                                          new_size, " bytes");
      }
    }
    if (moved != nullptr) {
      std::memcpy(moved, *ptr, std::min(old_size, new_size));
      Delete(*ptr, old_size, alignment);
      *ptr = moved;
    }
    stats_.DidReallocateBytes(old_size, new_size);
    return arrow::Status::OK();
  }

  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override {
    Delete(buffer, size, alignment);
    stats_.DidFreeBytes(size);
  }

  int64_t bytes_allocated() const override { return stats_.bytes_allocated(); }
  int64_t max_memory() const override { return stats_.max_memory(); }
  int64_t total_bytes_allocated() const override {
    return stats_.total_bytes_allocated();
  }
  int64_t num_allocations() const override { return stats_.num_allocations(); }
  std::string backend_name() const override { return "millrace"; }

 private:
  static bool InHeap(int64_t size, int64_t alignment) {
    return size >= kHeapBytes &&
           alignment <= static_cast<int64_t>(PageHeap::kPageBytes);
  }

  uint8_t* New(int64_t size, int64_t alignment) {
    if (InHeap(size, alignment)) return heap_.Take(size);
    void* data = nullptr;
    // Never 0 bytes, because malloc may return null for 0.
    return posix_memalign(&data, alignment, std::max<int64_t>(size, 1)) == 0
               ? static_cast<uint8_t*>(data)
               : nullptr;
  }

  void Delete(uint8_t* data, int64_t size, int64_t alignment) {
    if (InHeap(size, alignment)) {
      heap_.Give(data, size);
    } else {
      std::free(data);
    }
  }

  PageHeap heap_;
  arrow::internal::MemoryPoolStats stats_;
};

}  // namespace

arrow::MemoryPool* BoundedPool::Base() {
  static auto* const base = new BasePool;  // arrays may outlive main()
  return base;
}

arrow::Status BoundedPool::Take(int64_t size) {
  const uint64_t wanted = used_.load() + static_cast<uint64_t>(size);
  if (wanted > limit_) {
    const uint64_t missing = wanted - limit_;
    const uint64_t piece = std::max(missing, kGrowBytes);
    if (grow_ && grow_(piece)) {
      limit_ += piece;
    } else if (grow_ && piece > missing && grow_(missing)) {
      limit_ += missing;
    } else {
      refused_ = wanted;
      return arrow::Status::OutOfMemory("the reservation is ", limit_,
                                        " bytes, but ", wanted, " are needed");
    }
  }
  peak_ = std::max(peak_, static_cast<int64_t>(wanted));
  return arrow::Status::OK();
}

arrow::Status BoundedPool::Allocate(int64_t size, int64_t alignment,
                                    uint8_t** out) {
  ARROW_RETURN_NOT_OK(Take(size));
  ARROW_RETURN_NOT_OK(base_->Allocate(size, alignment, out));
  used_ += size;
  total_ += size;
  ++allocations_;
  return arrow::Status::OK();
}

arrow::Status BoundedPool::Reallocate(int64_t old_size, int64_t new_size,
                                      int64_t alignment, uint8_t** ptr) {
  // Both buffers exist while the bytes are copied.
  ARROW_RETURN_NOT_OK(Take(new_size));
  ARROW_RETURN_NOT_OK(base_->Reallocate(old_size, new_size, alignment, ptr));
  used_ += new_size - old_size;
  total_ += std::max<int64_t>(0, new_size - old_size);
  ++allocations_;
  return arrow::Status::OK();
}

void BoundedPool::Free(uint8_t* buffer, int64_t size, int64_t alignment) {
  base_->Free(buffer, size, alignment);
  used_ -= size;
}

arrow::Status BoundedPool::Charge::RaiseTo(int64_t bytes) {
  if (bytes <= bytes_) return arrow::Status::OK();
  ARROW_RETURN_NOT_OK(pool_->Take(bytes - bytes_));
  pool_->used_ += bytes - bytes_;
  bytes_ = bytes;
  return arrow::Status::OK();
}

void BoundedPool::Close() {
  grow_ = nullptr;
  limit_ = used_.load();
}

}  // namespace millrace::storage
