// The memory of batches. A large buffer is its own mapping, so freeing it
// returns the memory to the system. malloc would keep the memory if a later
// allocation follows it.
//
// Thread-safe.
//
//   uint64_t capacity;
//   uint8_t* data = NewPayloadBuffer(bytes, &capacity);
//   FreePayloadBuffer(data, capacity);

#ifndef MILLRACE_SERVER_BATCH_PAYLOAD_BUFFER_H_
#define MILLRACE_SERVER_BATCH_PAYLOAD_BUFFER_H_

#include <cstdint>

namespace millrace::batch {

// Minimum size of buffers that are mappings: the system limits the number of
// mappings (vm.max_map_count, 65,530).
inline constexpr uint64_t kMappedPayloadBytes = 1 << 20;

// The capacity of a buffer for `bytes`: a multiple of 64, of 4096 for a
// mapping.
uint64_t PayloadCapacity(uint64_t bytes);

// 64-byte aligned, not initialised, PayloadCapacity(bytes) long. Aborts when
// the system has no memory: the budget is there to keep that from happening.
uint8_t* NewPayloadBuffer(uint64_t bytes, uint64_t* capacity);

void FreePayloadBuffer(uint8_t* data, uint64_t capacity);

}  // namespace millrace::batch

#endif  // MILLRACE_SERVER_BATCH_PAYLOAD_BUFFER_H_
