// NearestDivisorsText names the numbers next to `n` that divide `whole`, for an
// error about a number that does not.
//
// Pure function, safe from any thread.
//
//   NearestDivisorsText(64, 7)   ->  "4 and 8"
//   NearestDivisorsText(64, 99)  ->  "64"

#ifndef MILLRACE_COMMON_NEAREST_DIVISORS_H_
#define MILLRACE_COMMON_NEAREST_DIVISORS_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace millrace {

// `whole` and `n` are not 0.
inline std::string NearestDivisorsText(uint64_t whole, uint64_t n) {
  uint64_t below = std::min(n, whole);
  while (whole % below != 0) --below;
  if (n >= whole) return absl::StrCat(below);
  uint64_t above = n + 1;
  while (whole % above != 0) ++above;
  return absl::StrCat(below, " and ", above);
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_NEAREST_DIVISORS_H_
