// PageLockedMemory is host memory that a device reads directly: pages of its
// own, locked by whoever knows how. A piece takes its bytes rounded up to a
// page, not to a power of two. It knows neither libtorch nor CUDA.
//
// Pieces that are freed are kept, locked, for the next of the same size and go
// back at the end: unlocking pages may wait until the device is idle, which no
// running job may be made to do.
//
// Not thread-safe: guarded by its owner. All pieces die with it.
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

namespace millrace {

class PageLock {
 public:
  virtual ~PageLock() = default;
  // Whole pages. What cannot be locked stays as it is.
  virtual absl::Status Lock(uint8_t* data, uint64_t bytes) = 0;
  virtual void Unlock(uint8_t* data) = 0;
};

class PageLockedMemory {
 public:
  // `locked_bytes` counts what is locked: it goes up and down by that.
  PageLockedMemory(std::unique_ptr<PageLock> lock,
                   std::shared_ptr<std::atomic<uint64_t>> locked_bytes);
  ~PageLockedMemory();
  PageLockedMemory(const PageLockedMemory&) = delete;
  PageLockedMemory& operator=(const PageLockedMemory&) = delete;

  // nullptr, and `why` says why: there is no memory, or it cannot be locked.
  uint8_t* Allocate(uint64_t bytes, absl::Status* why);
  // `bytes` as they were asked for.
  void Free(uint8_t* data, uint64_t bytes);

  // What a piece of so many bytes takes.
  static uint64_t Rounded(uint64_t bytes);

 private:
  const std::unique_ptr<PageLock> lock_;
  const std::shared_ptr<std::atomic<uint64_t>> locked_bytes_;
  std::map<uint8_t*, uint64_t> all_;                  // rounded bytes
  std::map<uint64_t, std::vector<uint8_t*>> unused_;  // by rounded bytes
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_TORCH_PAGE_LOCKED_MEMORY_H_
