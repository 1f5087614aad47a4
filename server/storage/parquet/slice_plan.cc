#include "server/storage/parquet/slice_plan.h"

#include <algorithm>

namespace millrace::storage {
namespace {

// A slice takes at most this part of the cache, but a few MiB in any case:
// small slices are expensive, because rows before a slice may have to be
// decoded for it.
constexpr uint64_t kParts = 16;
constexpr uint64_t kMinSliceBytes = 16 << 20;
// Bytes of a slice in addition to its columns.
constexpr uint64_t kSliceBytes = 4096;

}  // namespace

SlicePlan PlanSlices(int64_t rows, absl::Span<const ChunkCost> columns,
                     uint64_t cache_bytes) {
  ChunkCost all = {.fixed = kSliceBytes};
  uint64_t codec = 0;
  for (const ChunkCost& column : columns) {
    all.fixed += column.fixed;
    all.per_row += column.per_row;
    codec = std::max(codec, column.CodecBytes());
  }
  rows = std::max<int64_t>(1, rows);
  // Every slice repeats the fixed part, which must be at most half of the
  // slice.
  const uint64_t wanted =
      std::max({cache_bytes / kParts, kMinSliceBytes, 2 * all.fixed}) + codec;
  all.fixed += codec;
  const uint64_t target = std::min(cache_bytes, wanted);
  if (all.Bytes(rows) <= target) return {rows, all.Bytes(rows)};
  const double room =
      target > all.fixed ? static_cast<double>(target - all.fixed) : 0;
  const auto fit =
      std::clamp<int64_t>(static_cast<int64_t>(room / all.per_row), 1, rows);
  const int64_t slices = (rows + fit - 1) / fit;
  const int64_t each = (rows + slices - 1) / slices;
  return {each, all.Bytes(each)};
}

}  // namespace millrace::storage
