// EpochSteps cuts an epoch of N positions into steps of G (the global batch)
// and each step into the slices of the ranks.
//
// Step s holds positions [s*G, (s+1)*G); rank r of w takes the r-th contiguous
// slice of G/w. All ranks have the same number of steps. The remainder:
//  DROP     floor(N/G) steps; the remainder is left out; N < G is refused.
//  PAD      ceil(N/G) steps; padding rows fill the last step.
//  PARTIAL  ceil(N/G) steps; of the R remaining samples, rank r gets
//           [floor(r*R/w), floor((r+1)*R/w)), which may be empty.
//
// Pure, immutable, thread-safe.
//
//   MR_ASSIGN_OR_RETURN(auto steps, EpochSteps::Create(n, g, LAST_BATCH_DROP));
//   MR_ASSIGN_OR_RETURN(StepRows rows, steps.Rows(step, rank, world));

#ifndef MILLRACE_SERVER_PLAN_EPOCH_STEPS_H_
#define MILLRACE_SERVER_PLAN_EPOCH_STEPS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::plan {

// One rank's part of one step: positions [first, first + rows). The first
// `valid` of them are samples, the rest is padding.
struct StepRows {
  uint64_t first = 0;
  uint64_t rows = 0;
  uint64_t valid = 0;
  uint64_t global_valid = 0;  // samples of the whole step, over all ranks
};

class EpochSteps {
 public:
  // InvalidArgument: DROP of fewer samples than a batch.
  static absl::StatusOr<EpochSteps> Create(uint64_t samples,
                                           uint64_t batch_size, LastBatch last);

  uint64_t samples() const { return samples_; }
  uint64_t steps() const { return steps_; }
  uint64_t dropped() const { return dropped_; }

  // InvalidArgument when `world` is 0 or does not divide the batch; the message
  // names the nearest divisors.
  absl::Status CheckWorld(uint32_t world) const;

  // Max rows of one rank in any step. `world` was checked before.
  uint64_t MaxRows(uint32_t world) const { return batch_size_ / world; }

  // OutOfRange: a step past the end. InvalidArgument: a wrong `world`, or rank
  // >= world.
  absl::StatusOr<StepRows> Rows(uint64_t step, uint32_t rank,
                                uint32_t world) const;

 private:
  EpochSteps(uint64_t samples, uint64_t batch_size, LastBatch last)
      : samples_(samples), batch_size_(batch_size), last_(last) {}

  uint64_t samples_;
  uint64_t batch_size_;
  LastBatch last_;
  uint64_t steps_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_EPOCH_STEPS_H_
