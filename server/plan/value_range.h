// The values that a field can hold, and whether another element type can
// represent them.
//
// Pure functions, safe from any thread.
//
//   if (!Holds(DTYPE_INT8, ValuesOfClasses(10))) ...

#ifndef MILLRACE_SERVER_PLAN_VALUE_RANGE_H_
#define MILLRACE_SERVER_PLAN_VALUE_RANGE_H_

#include <cstdint>
#include <optional>

#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace::plan {

struct ValueRange {
  int64_t min = 0;
  int64_t max = 0;
};

// Absent for floating-point and unknown types.
std::optional<ValueRange> ValuesOf(DType dtype);

// The range of class indices and of the -100 of rows without a sample.
ValueRange ValuesOfClasses(int64_t num_classes);

// True if `dtype` represents every whole number of the range exactly.
bool Holds(DType dtype, const ValueRange& range);

bool IsFloatingPoint(DType dtype);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_VALUE_RANGE_H_
