// A small data set on disk for tests of whole programs: `image` uint8
// [28,28,1] and `label` int64 of ten classes, made from the sample's number.

#ifndef MILLRACE_TESTS_TESTING_DIGITS_H_
#define MILLRACE_TESTS_TESTING_DIGITS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace millrace::testing {

// Pixel `i` of sample `index`, and its label.
inline uint8_t DigitPixel(int64_t index, int64_t i) {
  return static_cast<uint8_t>(index * 131 + i * 7 + (i * index >> 5));
}
inline int64_t DigitLabel(int64_t index) { return index * 7 % 10; }

// Writes `samples` of them to `uri` (lmdb:PATH; raw pixels).
absl::Status WriteDigits(const std::string& uri, int64_t samples,
                         int64_t shards = 1);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTING_DIGITS_H_
