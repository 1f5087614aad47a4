// BufferPool keeps the memory of finished batches for the next ones. A batch of
// some megabytes is a mapping of its own for malloc: the system zeroes its
// pages at the first touch of every batch, which costs about as much as
// filling them. What is idle is bounded by `max_idle_bytes`; the owner counts
// those in its budget (buffers in use are counted by their batches).
//
// Thread-safe. Owns the idle buffers.
//
//   auto pool = std::make_shared<BufferPool>(64 << 20);
//   uint8_t* data = pool->Take(bytes, &capacity);
//   pool->Give(data, capacity);

#ifndef MILLRACE_SERVER_BATCH_BUFFER_POOL_H_
#define MILLRACE_SERVER_BATCH_BUFFER_POOL_H_

#include <cstdint>
#include <vector>

#include "common/mutex.h"

namespace millrace {

class BufferPool {
 public:
  explicit BufferPool(uint64_t max_idle_bytes)
      : max_idle_bytes_(max_idle_bytes) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // 64-byte aligned, not initialised, `bytes` long or up to 63 bytes longer.
  // `capacity` is its real length. Aborts when the system has no memory: the
  // budget is there to keep that from happening.
  uint8_t* Take(uint64_t bytes, uint64_t* capacity);

  // Keeps the buffer or frees it.
  void Give(uint8_t* data, uint64_t capacity);

  uint64_t idle_bytes() const;

 private:
  struct Idle {
    uint8_t* data;
    uint64_t capacity;
  };

  const uint64_t max_idle_bytes_;
  mutable Mutex mu_;
  std::vector<Idle> idle_ MR_GUARDED_BY(mu_);  // the warmest last
  uint64_t idle_bytes_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_BATCH_BUFFER_POOL_H_
