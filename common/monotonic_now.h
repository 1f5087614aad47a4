// MonotonicNow is std::chrono::steady_clock as absl::Time, for code that takes
// its clock as a function and computes with absl::Duration. Its zero has no
// meaning: two times can be compared and subtracted, but not shown.
//
// Thread-safe.
//
//   const absl::Time start = MonotonicNow();
//   const absl::Duration took = MonotonicNow() - start;

#ifndef MILLRACE_COMMON_MONOTONIC_NOW_H_
#define MILLRACE_COMMON_MONOTONIC_NOW_H_

#include <chrono>

#include "absl/time/time.h"

namespace millrace {

inline absl::Time MonotonicNow() {
  return absl::UnixEpoch() +
         absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_MONOTONIC_NOW_H_
