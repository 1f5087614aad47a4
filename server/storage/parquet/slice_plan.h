// PlanSlices divides a row group into slices of equal numbers of rows, each of
// which is decoded by itself, so that none takes more than a part of the cache:
// several can be decoded at a time, and a row that is wanted does not bring all
// of a large row group with it. Small row groups stay whole.
//
// Pure.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_SLICE_PLAN_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_SLICE_PLAN_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/storage/parquet/chunk_cost.h"

namespace millrace {

struct SlicePlan {
  int64_t rows = 1;    // of a slice; the last may have fewer
  uint64_t bytes = 0;  // that decoding one takes
};

// Of a row group with `rows` rows and columns of these costs. `bytes` are more
// than `cache_bytes` where not even one row fits.
SlicePlan PlanSlices(int64_t rows, absl::Span<const ChunkCost> columns,
                     uint64_t cache_bytes);

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_SLICE_PLAN_H_
