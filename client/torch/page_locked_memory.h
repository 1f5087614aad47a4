// PageLockedMemory allocates host memory that a device reads directly: whole
// pages, which a PageLock locks. A piece takes its bytes rounded up to a page,
// not to a power of two.
//
// What it is not: it knows neither libtorch nor CUDA.
//
// Freed pieces stay locked and are reused for the next piece of the same size;
// they are unlocked in the destructor only, because unlocking may wait until
// the device is idle.
//
// Not thread-safe: the owner guards it. The destructor frees all pieces.
//
//   PageLockedMemory memory(std::make_unique<CudaPageLock>(device), counter);
//   absl::Status why;
//   uint8_t* data = memory.Allocate(bytes, &why);

#ifndef MILLRACE_CLIENT_TORCH_PAGE_LOCKED_MEMORY_H_
#define MILLRACE_CLIENT_TORCH_PAGE_LOCKED_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"

namespace millrace::device {

class PageLock {
 public:
  virtual ~PageLock() = default;
  // Locks whole pages. After an error they are unchanged.
  virtual absl::Status Lock(uint8_t* data, uint64_t bytes) = 0;
  virtual void Unlock(uint8_t* data) = 0;
};

class PageLockedMemory {
 public:
  // Adds the locked bytes to `locked_bytes`, and subtracts them when they are
  // unlocked.
  PageLockedMemory(std::unique_ptr<PageLock> lock,
                   std::shared_ptr<std::atomic<uint64_t>> locked_bytes);
  ~PageLockedMemory();
  PageLockedMemory(const PageLockedMemory&) = delete;
  PageLockedMemory& operator=(const PageLockedMemory&) = delete;

  // nullptr: there is no memory, or it cannot be locked; `why` has the reason.
  uint8_t* Allocate(uint64_t bytes, absl::Status* why);
  // `bytes` is the size that Allocate() was called with.
  void Free(uint8_t* data, uint64_t bytes);

  // The bytes that a piece of `bytes` takes.
  static uint64_t Rounded(uint64_t bytes);

 private:
  const std::unique_ptr<PageLock> lock_;
  const std::shared_ptr<std::atomic<uint64_t>> locked_bytes_;
  std::map<uint8_t*, uint64_t> all_;                  // rounded bytes
  std::map<uint64_t, std::vector<uint8_t*>> unused_;  // by rounded bytes
};

}  // namespace millrace::device

#endif  // MILLRACE_CLIENT_TORCH_PAGE_LOCKED_MEMORY_H_
