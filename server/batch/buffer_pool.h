// BufferPool keeps the memory of finished batches for the next ones. A batch of
// some megabytes is a mapping of its own (payload_buffer.h): the system zeroes
// its pages at the first touch of every batch, which costs about as much as
// filling them. Idle memory is bounded by `max_idle_bytes`, which the owner
// counts in its budget (batches count the buffers in use). With a budget to
// borrow from, idle memory may grow to kMaxIdle times that bound as long as no
// request needs the memory.
//
// Thread-safe. Owns the idle buffers.
//
//   auto pool = std::make_shared<BufferPool>(64 << 20, budget);
//   budget->SetReclaim([pool](uint64_t bytes) { pool->Reclaim(bytes); });
//   uint8_t* data = pool->Take(bytes, &capacity);
//   pool->Give(data, capacity);

#ifndef MILLRACE_SERVER_BATCH_BUFFER_POOL_H_
#define MILLRACE_SERVER_BATCH_BUFFER_POOL_H_

#include <cstdint>
#include <deque>

#include "common/byte_budget.h"
#include "common/mutex.h"

namespace millrace::batch {

class BufferPool {
 public:
  // Idle bytes are at most this multiple of max_idle_bytes, the part above 1
  // borrowed. A choice.
  static constexpr uint64_t kMaxIdle = 4;

  // `lender` may be null; otherwise it outlives the pool.
  explicit BufferPool(uint64_t max_idle_bytes, ByteBudget* lender = nullptr)
      : max_idle_bytes_(max_idle_bytes), lender_(lender) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // As NewPayloadBuffer().
  uint8_t* Take(uint64_t bytes, uint64_t* capacity);

  // Keeps the buffer or frees it. Must be called before the batch's own
  // reservation is released, so that the memory is counted twice for a moment
  // and never uncounted.
  void Give(uint8_t* data, uint64_t capacity);

  // Gives what is idle back to the system.
  void ReleaseIdle();

  // Frees idle buffers and repays up to `bytes` of the borrowed bytes. For
  // ByteBudget::SetReclaim(); without locks held.
  void Reclaim(uint64_t bytes);

  uint64_t idle_bytes() const;

 private:
  struct Idle {
    uint8_t* data;
    uint64_t capacity;
  };

  // Whether `bytes` more may be idle; borrows what is missing. Does not add
  // them to idle_bytes_.
  bool MakeRoom(uint64_t bytes) MR_REQUIRES(mu_);
  // Takes the oldest out of the list.
  Idle DropOldest() MR_REQUIRES(mu_);
  // Repays what is borrowed beyond the need of idle_bytes_.
  void Settle() MR_REQUIRES(mu_);

  const uint64_t max_idle_bytes_;
  ByteBudget* const lender_;
  // Taken before the budget's lock (Borrow(), Repay()). The budget calls
  // Reclaim() without its lock.
  mutable Mutex mu_;
  // In the order in which they came back: the last one is the warmest.
  std::deque<Idle> idle_ MR_GUARDED_BY(mu_);
  uint64_t idle_bytes_ MR_GUARDED_BY(mu_) = 0;
  // Bytes borrowed from lender_: at least what idle_bytes_ has above
  // max_idle_bytes_, and more only until the next Settle(). Always 0 without a
  // lender.
  uint64_t borrowed_ MR_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace::batch

#endif  // MILLRACE_SERVER_BATCH_BUFFER_POOL_H_
