#include "server/batch/buffer_pool.h"

#include <vector>

#include "server/batch/payload_buffer.h"

namespace millrace::batch {
namespace {

// Upper bound of the idle buffers, because the list is searched linearly under
// the lock. A choice.
constexpr size_t kMaxIdleBuffers = 256;

}  // namespace

BufferPool::~BufferPool() { ReleaseIdle(); }

void BufferPool::ReleaseIdle() {
  std::deque<Idle> dropped;
  {
    MutexLock lock(mu_);
    // Freed after the lock, because returning megabytes to the system takes
    // long.
    dropped.swap(idle_);
    idle_bytes_ = 0;
    Settle();
  }
  for (const Idle& idle : dropped) FreePayloadBuffer(idle.data, idle.capacity);
}

uint8_t* BufferPool::Take(uint64_t bytes, uint64_t* capacity) {
  const uint64_t rounded = PayloadCapacity(bytes);
  {
    MutexLock lock(mu_);
    for (auto it = idle_.rbegin(); it != idle_.rend(); ++it) {
      // The capacity must match exactly: a longer buffer would hold more memory
      // than its batch has reserved.
      if (it->capacity != rounded) continue;
      const Idle found = *it;
      idle_.erase(std::next(it).base());
      idle_bytes_ -= found.capacity;
      Settle();
      *capacity = found.capacity;
      return found.data;
    }
  }
  // No idle buffer has this size, so the system allocates one.
  return NewPayloadBuffer(bytes, capacity);
}

void BufferPool::Give(uint8_t* data, uint64_t capacity) {
  std::vector<Idle> dropped;
  {
    MutexLock lock(mu_);
    // The oldest buffers are dropped for the new one, because probably no batch
    // has their size any more. A buffer larger than the pool's own bytes drops
    // none: it would empty the pool and might still not fit.
    bool room = MakeRoom(capacity);
    while (!room && !idle_.empty() && capacity <= max_idle_bytes_) {
      dropped.push_back(DropOldest());
      room = MakeRoom(capacity);
    }
    if (room) {
      idle_.push_back({data, capacity});
      idle_bytes_ += capacity;
    } else {
      dropped.push_back({data, capacity});
    }
    Settle();
  }
  for (const Idle& old : dropped) FreePayloadBuffer(old.data, old.capacity);
}

void BufferPool::Reclaim(uint64_t bytes) {
  std::vector<Idle> dropped;
  {
    MutexLock lock(mu_);
    // Bytes that may stay borrowed.
    const uint64_t keep = borrowed_ > bytes ? borrowed_ - bytes : 0;
    while (idle_bytes_ > max_idle_bytes_ + keep)
      dropped.push_back(DropOldest());
  }
  for (const Idle& old : dropped) FreePayloadBuffer(old.data, old.capacity);
  // After the memory is free, so that the budget never reports less than is in
  // use.
  MutexLock lock(mu_);
  Settle();
}

bool BufferPool::MakeRoom(uint64_t bytes) {
  const uint64_t idle = idle_bytes_ + bytes;
  if (idle_.size() >= kMaxIdleBuffers) return false;
  if (idle <= max_idle_bytes_ + borrowed_) return true;
  if (lender_ == nullptr || idle > kMaxIdle * max_idle_bytes_) return false;
  const uint64_t missing = idle - max_idle_bytes_ - borrowed_;
  // Borrows only the difference, because borrowed_ may exceed the need already.
  if (!lender_->Borrow(missing)) return false;
  borrowed_ += missing;
  return true;
}

BufferPool::Idle BufferPool::DropOldest() {
  const Idle oldest = idle_.front();
  idle_.pop_front();
  idle_bytes_ -= oldest.capacity;
  return oldest;
}

void BufferPool::Settle() {
  const uint64_t needed =
      idle_bytes_ > max_idle_bytes_ ? idle_bytes_ - max_idle_bytes_ : 0;
  if (borrowed_ <= needed) return;
  lender_->Repay(borrowed_ - needed);
  borrowed_ = needed;
}

uint64_t BufferPool::idle_bytes() const {
  MutexLock lock(mu_);
  return idle_bytes_;
}

}  // namespace millrace::batch
