#include "server/batch/payload_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "common/logging.h"

namespace millrace::batch {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kPage = 4096;

uint64_t RoundUp(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

uint64_t PayloadCapacity(uint64_t bytes) {
  const uint64_t used = std::max<uint64_t>(bytes, 1);
  return RoundUp(used, used >= kMappedPayloadBytes ? kPage : kAlignment);
}

uint8_t* NewPayloadBuffer(uint64_t bytes, uint64_t* capacity) {
  *capacity = PayloadCapacity(bytes);
  void* data;
  if (*capacity >= kMappedPayloadBytes) {
    data = mmap(nullptr, *capacity, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) data = nullptr;
  } else {
    data = std::aligned_alloc(kAlignment, *capacity);
  }
  MR_CHECK(data != nullptr) << "the system cannot provide " << *capacity
                            << " bytes for a batch: lower --memory_budget";
  return static_cast<uint8_t*>(data);
}

void FreePayloadBuffer(uint8_t* data, uint64_t capacity) {
  if (capacity >= kMappedPayloadBytes) {
    MR_CHECK(munmap(data, capacity) == 0) << "no mapping of " << capacity;
  } else {
    std::free(data);
  }
}

}  // namespace millrace::batch
