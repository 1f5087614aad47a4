#include "server/storage/file_room.h"

#include <algorithm>
#include <utility>

namespace millrace::storage {
namespace {

// Larger buffers are not kept: beside reading and decoding such a file, new
// memory costs little.
constexpr uint64_t kMaxKeptBytes = 1 << 20;
// A kept buffer may be this much larger than twice the file.
constexpr uint64_t kSlackBytes = 64 << 10;

}  // namespace

FileRoom::Buffer::Buffer(FileRoom& room, size_t bytes)
    : room_(room), memory_(room.Take(Charge(bytes), &charged_)) {
  // Without the lock. Gets no more than Charge(bytes), or what was kept.
  data_ = memory_->Reserve(bytes);
}

FileRoom::Buffer::~Buffer() { room_.Give(std::move(memory_), charged_); }

uint64_t FileRoom::used_bytes() const {
  MutexLock lock(mu_);
  return in_use_ + kept_bytes_;
}

std::unique_ptr<AlignedBuffer> FileRoom::Take(uint64_t charge,
                                              uint64_t* charged) {
  // Declared before the lock, so that memory is freed after it.
  std::vector<std::unique_ptr<AlignedBuffer>> dropped;
  MutexLock lock(mu_);
  if (!line_.empty() || !Fits(charge)) {
    Waiter waiter;
    line_.push_back(&waiter);
    while (line_.front() != &waiter || !Fits(charge)) waiter.turn.Wait(lock);
    line_.pop_front();
  }
  std::unique_ptr<AlignedBuffer> memory;
  if (!kept_.empty()) {
    memory = std::move(kept_.back());
    kept_.pop_back();
    kept_bytes_ -= memory->capacity();
    const uint64_t capacity = memory->capacity();
    if (capacity < charge || capacity > 2 * charge + kSlackBytes ||
        !Fits(capacity)) {
      dropped.push_back(std::move(memory));
    }
  }
  if (memory == nullptr) memory = std::make_unique<AlignedBuffer>();
  *charged = std::max<uint64_t>(charge, memory->capacity());
  in_use_ += *charged;
  while (kept_bytes_ > max_bytes_ - in_use_) {
    kept_bytes_ -= kept_.back()->capacity();
    dropped.push_back(std::move(kept_.back()));
    kept_.pop_back();
  }
  // There may be room for the next one, too.
  if (!line_.empty()) line_.front()->turn.NotifyOne();
  return memory;
}

void FileRoom::Give(std::unique_ptr<AlignedBuffer> memory, uint64_t charged) {
  const uint64_t capacity = memory->capacity();
  // Freed before its bytes are free for others.
  if (capacity > kMaxKeptBytes) memory.reset();
  MutexLock lock(mu_);
  in_use_ -= charged;
  if (memory != nullptr && capacity > 0) {
    kept_bytes_ += capacity;
    kept_.push_back(std::move(memory));
  }
  if (!line_.empty()) line_.front()->turn.NotifyOne();
}

}  // namespace millrace::storage
