// Recommends a batch size that fits when a device has no memory left.
//
// The estimate is linear: memory that does not depend on the batch (weights,
// optimiser, prefetched batches) is what was allocated outside of the step, and
// the step took (peak - that) / rows for each row. Allocators round, and
// libraries allocate workspaces, so a tenth is left free. A step that never
// finished shows only a part of its need: the advice is then an upper bound,
// and says so.
//
// Pure functions.

#ifndef MILLRACE_TRAINER_MEMORY_ADVICE_H_
#define MILLRACE_TRAINER_MEMORY_ADVICE_H_

#include <cstdint>
#include <string>

namespace millrace::trainer {

struct StepMemory {
  uint64_t rows = 0;        // of the failed step on this rank
  uint32_t world_size = 1;  // ranks that share a batch
  // Bytes of the device.
  uint64_t outside = 0;    // allocated outside of steps
  uint64_t peak = 0;       // max allocated at once
  uint64_t available = 0;  // for this process: reserved and free
  // Steps of this size have completed before.
  bool ran_before = false;
};

// Rows of a rank that fit, below `rows`; 0: no row fits, or nothing is known.
uint64_t RowsThatFit(const StepMemory& memory);

// "a row of the batch takes about 48.2 MiB; 1.2 GiB of 8.0 GiB are used without
// any row: about 96 of 128 rows per rank would fit; try --batch_size=192 (2
// ranks)"
std::string MemoryAdvice(const StepMemory& memory);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_MEMORY_ADVICE_H_
