// PayloadMemory is where a call wants its batches to be filled, when that is
// not the engine's own memory: shared with the client, so that a batch is
// handed over instead of sent.
//
// Thread-safe: Take() and Give() come from worker threads.

#ifndef MILLRACE_SERVER_BATCH_PAYLOAD_MEMORY_H_
#define MILLRACE_SERVER_BATCH_PAYLOAD_MEMORY_H_

#include <cstdint>
#include <optional>

namespace millrace {

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

  // Hands over what Take() gave, in place of Give(): nobody writes to it until
  // the receiver has given it back. Nothing: the receiver is gone, the memory
  // stays the caller's.
  virtual std::optional<Lent> Lend(uint8_t* data) = 0;

  // The receiver was not told after all.
  virtual void TakeBack(const Lent& lent) = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_BATCH_PAYLOAD_MEMORY_H_
