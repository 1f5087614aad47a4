// How a dataset is opened; see open.h.

#ifndef MILLRACE_SERVER_STORAGE_OPEN_OPTIONS_H_
#define MILLRACE_SERVER_STORAGE_OPEN_OPTIONS_H_

#include <cstdint>

#include "common/byte_budget.h"

namespace millrace {

class Operators;

struct OpenSourceOptions {
  // Budget that decoded Parquet row groups are charged to; null: none is kept
  // beyond the one that a reader is working on. Must outlive the source.
  ByteBudget* cache_budget = nullptr;
  // Most bytes of decoded row groups that this source may keep.
  uint64_t cache_bytes = 256 << 20;
  // Libraries whose sources may read it; null: none.
  const Operators* operators = nullptr;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_OPEN_OPTIONS_H_
