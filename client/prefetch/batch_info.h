// BatchInfo says which batch of a run a batch is and how many of its rows are
// samples. Every form of a batch carries it: HostBatch, DeviceBatch, Batch.
//
// What it is not: it holds no tensor and owns no memory.
//
// Plain data. With world_size ranks, a global batch is cut into world_size
// equal parts; a batch is the part of one rank.
//
//   if (batch.position == Position{0, 17}) ...
//   loss_sum / batch.global_valid

#ifndef MILLRACE_CLIENT_PREFETCH_BATCH_INFO_H_
#define MILLRACE_CLIENT_PREFETCH_BATCH_INFO_H_

#include <cstdint>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

// Place of a batch in a run, and the state that a run resumes from: the next
// batch to return. (epoch, steps_per_epoch) is the same place as
// (epoch + 1, 0).
struct Position {
  uint64_t epoch = 0;
  uint64_t step = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

struct BatchInfo {
  Position position;
  uint64_t rows = 0;         // of this rank, padding included
  uint64_t local_valid = 0;  // rows of this rank that hold a sample
  // Rows of the global batch, over all ranks, that the plan fills: no padding,
  // but rows that BadSamplePolicy.ZERO has left empty.
  uint64_t global_valid = 0;
  // Number of row 0 in the order of the epoch, counted from 0.
  uint64_t first_position = 0;
  // Number of Seek() calls before this batch. It tells batches from before a
  // Seek() of another thread from batches after it.
  uint64_t generation = 0;
};

// The row counts come from `header`; a loader knows the other two.
inline BatchInfo MakeBatchInfo(const BatchHeader& header, Position position,
                               uint64_t generation) {
  return {.position = position,
          .rows = header.rows(),
          .local_valid = header.local_valid(),
          .global_valid = header.global_valid(),
          .first_position = header.first_position(),
          .generation = generation};
}

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_BATCH_INFO_H_
