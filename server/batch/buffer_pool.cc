#include "server/batch/buffer_pool.h"

#include <algorithm>
#include <cstdlib>

#include "common/logging.h"

namespace millrace {
namespace {

constexpr uint64_t kAlignment = 64;
// A search of the list should cost less than what it saves.
constexpr size_t kMaxIdleBuffers = 256;

}  // namespace

BufferPool::~BufferPool() {
  for (const Idle& idle : idle_) std::free(idle.data);
}

uint8_t* BufferPool::Take(uint64_t bytes, uint64_t* capacity) {
  const uint64_t rounded =
      (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  {
    MutexLock lock(mu_);
    for (auto it = idle_.rbegin(); it != idle_.rend(); ++it) {
      // A longer one would be more than its batch has reserved.
      if (it->capacity != rounded) continue;
      const Idle found = *it;
      idle_.erase(std::next(it).base());
      idle_bytes_ -= found.capacity;
      *capacity = found.capacity;
      return found.data;
    }
  }
  auto* data = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, rounded));
  MR_CHECK(data != nullptr) << "the system has no " << rounded
                            << " bytes for a batch: lower --memory_budget";
  *capacity = rounded;
  return data;
}

void BufferPool::Give(uint8_t* data, uint64_t capacity) {
  std::vector<uint8_t*> dropped;
  if (capacity > max_idle_bytes_) {
    std::free(data);
    return;
  }
  {
    MutexLock lock(mu_);
    // The oldest make room: they are of sizes that are not asked for any more.
    size_t out = 0;
    while (idle_bytes_ + capacity > max_idle_bytes_ ||
           idle_.size() - out >= kMaxIdleBuffers) {
      idle_bytes_ -= idle_[out].capacity;
      dropped.push_back(idle_[out++].data);
    }
    idle_.erase(idle_.begin(), idle_.begin() + out);
    idle_.push_back({data, capacity});
    idle_bytes_ += capacity;
  }
  for (uint8_t* old : dropped) std::free(old);
}

uint64_t BufferPool::idle_bytes() const {
  MutexLock lock(mu_);
  return idle_bytes_;
}

}  // namespace millrace
