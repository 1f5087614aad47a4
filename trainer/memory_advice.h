// What to say when a device has no memory left: which batch size would fit.
//
// The estimate is a straight line: memory that does not depend on the batch
// (weights, optimiser, batches kept ready) is what was allocated outside of the
// step, and the step took (peak - that) / rows for each row. Allocators round
// and libraries take work space of their own, so a tenth is left free. A step
// that never ran to its end shows only a part of what it needs: the advice is
// then an upper bound, and says so.
//
// Pure functions.

#ifndef MILLRACE_TRAINER_MEMORY_ADVICE_H_
#define MILLRACE_TRAINER_MEMORY_ADVICE_H_

#include <cstdint>
#include <string>

namespace millrace {

struct StepMemory {
  uint64_t rows = 0;        // of the failed step on this rank
  uint32_t world_size = 1;  // ranks that share a batch
  // Bytes of the device.
  uint64_t outside = 0;    // allocated when no step runs
  uint64_t peak = 0;       // the most that was allocated at once
  uint64_t available = 0;  // to this process: reserved and free
  // Steps of this size have run before.
  bool ran_before = false;
};

// Rows of a rank that fit, below `rows`; 0: nothing fits, or nothing is known.
uint64_t RowsThatFit(const StepMemory& memory);

// "a row takes about 48.2 MiB and 1.2 GiB are taken without any; about 96 of
// 128 rows a rank would fit: try --batch_size=192 (2 ranks)"
std::string MemoryAdvice(const StepMemory& memory);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_MEMORY_ADVICE_H_
