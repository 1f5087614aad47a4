// BoundedPool is the memory of one decoding of Arrow's: an allocation past what
// was reserved for it fails with OutOfMemory, which Arrow hands back as any
// other error. It may ask for more room first. What Arrow's libraries allocate
// elsewhere is charged.
//
// It counts; the memory itself is that of Base(). Arrays keep a bare pointer to
// the pool of their buffers: it must outlive them.
//
// One thread allocates; memory may be freed on any thread.
//
//   BoundedPool pool(reserved, [&](uint64_t more) { return room.Grow(more); });
//   auto reader = parquet::arrow::FileReader::Make(&pool, ...);
//   pool.Close();  // what is left is what the arrays take

#ifndef MILLRACE_SERVER_STORAGE_COLUMNS_BOUNDED_POOL_H_
#define MILLRACE_SERVER_STORAGE_COLUMNS_BOUNDED_POOL_H_

#include <arrow/memory_pool.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace millrace::storage {

class BoundedPool final : public arrow::MemoryPool {
 public:
  // `grow` is asked for bytes beyond `limit`; it may be empty.
  BoundedPool(uint64_t limit, std::function<bool(uint64_t)> grow)
      : limit_(limit), grow_(std::move(grow)) {}

  // Where all of them allocate: a PageHeap, and malloc for small pieces.
  // Arrow's own allocators keep freed pages for each thread or CPU: 36 threads
  // that read large lists held 540 MB of a cache of 32 MiB with mimalloc
  // (Arrow's default) and with malloc, 140 with jemalloc.
  static arrow::MemoryPool* Base();

  arrow::Status Allocate(int64_t size, int64_t alignment,
                         uint8_t** out) override;
  arrow::Status Reallocate(int64_t old_size, int64_t new_size,
                           int64_t alignment, uint8_t** ptr) override;
  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override;

  // Bytes that are allocated elsewhere, for what Arrow does in this pool. They
  // count until the charge is gone. Belongs to the thread that allocates.
  class Charge {
   public:
    explicit Charge(BoundedPool* pool) : pool_(pool) {}
    ~Charge() { pool_->used_ -= bytes_; }
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;

    // OutOfMemory: there is no room for `bytes` in all.
    arrow::Status RaiseTo(int64_t bytes);

   private:
    BoundedPool* const pool_;
    int64_t bytes_ = 0;
  };

  // Nothing is allocated any more.
  void Close();

  // What an allocation that was refused would have made of bytes_allocated();
  // 0: none was refused.
  uint64_t refused_bytes() const { return refused_; }
  uint64_t limit() const { return limit_; }

  int64_t bytes_allocated() const override { return used_.load(); }
  int64_t max_memory() const override { return peak_; }
  int64_t total_bytes_allocated() const override { return total_; }
  int64_t num_allocations() const override { return allocations_; }
  std::string backend_name() const override { return base_->backend_name(); }

 private:
  // Whether `size` bytes more may be there at the same time.
  arrow::Status Take(int64_t size);

  arrow::MemoryPool* const base_ = Base();
  std::atomic<int64_t> used_{0};
  // Of the thread that allocates.
  uint64_t limit_;
  std::function<bool(uint64_t)> grow_;
  uint64_t refused_ = 0;
  int64_t peak_ = 0;
  int64_t total_ = 0;
  int64_t allocations_ = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_COLUMNS_BOUNDED_POOL_H_
