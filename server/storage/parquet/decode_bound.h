// DecodeBound is an upper bound of the memory that decoding rows of one column
// chunk needs. Planning uses ChunkCost, which assumes pages of the usual size.
// DecodeBound knows the pages and is computed only for a refusal, because the
// number in a refusal must be sufficient.
//
// Plain numbers.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_DECODE_BOUND_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_DECODE_BOUND_H_

#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <cstdint>

#include "server/storage/parquet/chunk_cost.h"
#include "server/storage/parquet/page_sizes.h"

namespace millrace::storage {

struct DecodeBound {
  ChunkCost cost;
  PageSizes pages;
  uint64_t page_bytes = 0;  // pages that are in memory at a time
  // Strings: bytes of all of them, and of the largest; upper bounds.
  bool strings = false;
  uint64_t all_values = 0;
  uint64_t largest_value = 0;

  uint64_t Bytes(int64_t rows) const;
};

// `cost` and `pages`: of the chunk.
DecodeBound BoundOf(const parquet::ColumnChunkMetaData& chunk,
                    const parquet::ColumnDescriptor& column,
                    const ChunkCost& cost, const PageSizes& pages);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_DECODE_BOUND_H_
