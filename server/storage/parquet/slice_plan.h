// PlanSlices divides a row group into slices of equal numbers of rows, which
// are decoded separately. A slice takes only a part of the cache, so several
// slices can be decoded at a time, and reading one row does not decode a whole
// large row group. Small row groups are not divided.
//
// Pure.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_SLICE_PLAN_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_SLICE_PLAN_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/storage/parquet/chunk_cost.h"

namespace millrace::storage {

struct SlicePlan {
  int64_t rows = 1;    // of a slice; the last may have fewer
  uint64_t bytes = 0;  // that decoding one takes
};

// Of a row group with `rows` rows and columns of these costs. `bytes` are more
// than `cache_bytes` where not even one row fits.
SlicePlan PlanSlices(int64_t rows, absl::Span<const ChunkCost> columns,
                     uint64_t cache_bytes);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_SLICE_PLAN_H_
