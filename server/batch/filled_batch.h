// FilledBatch is a finished batch on its way from the pipeline to the wire.
// Its payload is the wire buffer: moved, referenced by slices, never copied.
//
// Plain data, moved from thread to thread. The payload may outlive the engine
// that made it, but not the budget.

#ifndef MILLRACE_SERVER_BATCH_FILLED_BATCH_H_
#define MILLRACE_SERVER_BATCH_FILLED_BATCH_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "common/byte_budget.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "server/batch/buffer_pool.h"
#include "server/batch/payload_memory.h"

namespace millrace::batch {

// Memory of one batch and its share of the budget; both are given back when it
// is destroyed (by the last slice that refers to it).
class BatchPayload {
 public:
  // 64-byte aligned, not initialised. If `memory` has room, the payload is
  // there, and the reservation is released at once, because `memory` has its
  // own. Otherwise the memory comes from `pool` and returns to it; without a
  // pool it comes from the system.
  BatchPayload(uint64_t bytes, ByteBudget::Reservation reservation,
               std::shared_ptr<BufferPool> pool = nullptr,
               std::shared_ptr<PayloadMemory> memory = nullptr);
  ~BatchPayload();
  BatchPayload(const BatchPayload&) = delete;
  BatchPayload& operator=(const BatchPayload&) = delete;

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  // A client on this machine may read data() in place.
  bool in_shared_memory() const { return memory_ != nullptr; }

  // Lends the memory to the receiver, if it came from a PayloadMemory: from
  // then on data() is null and the payload is empty. Empty result: the payload
  // must be sent.
  struct Lending {
    PayloadMemory::Lent lent;
    std::shared_ptr<PayloadMemory> memory;  // to take it back
  };
  std::optional<Lending> Lend();

 private:
  const std::shared_ptr<BufferPool> pool_;  // may be null
  const uint64_t bytes_;
  uint64_t capacity_ = 0;
  std::shared_ptr<PayloadMemory> memory_;  // that data_ is from, or null
  uint8_t* data_ = nullptr;
  ByteBudget::Reservation reservation_;
};

struct FilledBatch {
  BatchHeader header;
  std::shared_ptr<BatchPayload> payload;
  // When its last row was filled; the clock's epoch: not known.
  std::chrono::steady_clock::time_point whole;
};

}  // namespace millrace::batch

#endif  // MILLRACE_SERVER_BATCH_FILLED_BATCH_H_
