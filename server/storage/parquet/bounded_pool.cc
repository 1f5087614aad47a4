#include "server/storage/parquet/bounded_pool.h"

#include <algorithm>

namespace millrace {
namespace {

// More room is asked for in pieces, so that a column that grows does not ask
// for every buffer.
constexpr uint64_t kGrowBytes = 1 << 20;

}  // namespace

arrow::MemoryPool* BoundedPool::Base() {
  static arrow::MemoryPool* const base = [] {
    arrow::MemoryPool* pool = nullptr;
    // An Arrow may be built without it.
    return arrow::jemalloc_memory_pool(&pool).ok()
               ? pool
               : arrow::default_memory_pool();
  }();
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
      return arrow::Status::OutOfMemory("no more than ", limit_,
                                        " bytes are reserved, ", wanted,
                                        " are needed");
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
  // Both are there while the bytes are copied.
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

void BoundedPool::Close() {
  grow_ = nullptr;
  limit_ = used_.load();
}

}  // namespace millrace
