// PayloadMemory is memory that a call provides for its batches instead of the
// engine's own memory: memory shared with the client, so that a batch is lent
// instead of sent.
//
// Thread-safe: Take() and Give() come from worker threads.

#ifndef MILLRACE_SERVER_BATCH_PAYLOAD_MEMORY_H_
#define MILLRACE_SERVER_BATCH_PAYLOAD_MEMORY_H_

#include <cstdint>
#include <optional>

namespace millrace::batch {

class PayloadMemory {
 public:
  // Names memory that was handed over.
  struct Lent {
    uint64_t slot = 0;
    uint64_t generation = 0;
  };

  virtual ~PayloadMemory() = default;

  // 64-byte aligned, at least `bytes`, not initialised, and counted in the
  // budget by its owner. Null: none now, the batch takes ordinary memory.
  virtual uint8_t* Take(uint64_t bytes) = 0;

  // What Take() gave is not used any more.
  virtual void Give(uint8_t* data) = 0;

  // Lends memory of Take() to the receiver, in place of Give(): nobody writes
  // to it until the receiver has returned it. Empty: the receiver is gone, and
  // the caller keeps the memory.
  virtual std::optional<Lent> Lend(uint8_t* data) = 0;

  // Undoes Lend(): the receiver was not told.
  virtual void TakeBack(const Lent& lent) = 0;
};

}  // namespace millrace::batch

#endif  // MILLRACE_SERVER_BATCH_PAYLOAD_MEMORY_H_
