// Numbers as people write them, for sentences that a person reads.
//
//   CountText(1, "sample")             ->  "1 sample"
//   CountText(0, "batch", "batches")   ->  "0 batches"
//   CountText(60000, "sample")         ->  "60,000 samples"
//   GroupedText(17099.6)               ->  "17,100"
//   RateText(17099.6), RateText(0.417) ->  "17,100", "0.417"
//   RateText(1708.4)                   ->  "1,708", not "1.71e+03"

#ifndef MILLRACE_COMMON_COUNT_TEXT_H_
#define MILLRACE_COMMON_COUNT_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace millrace {

// A comma after each third digit, from the right.
inline std::string GroupedDigits(std::string digits) {
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(digits.begin() + at, ',');
  }
  return digits;
}

// Exact, however large.
inline std::string GroupedText(uint64_t value) {
  return GroupedDigits(absl::StrCat(value));
}

// Rounded to a whole number; not negative.
inline std::string GroupedText(double value) {
  return GroupedDigits(absl::StrFormat("%.0f", value));
}

// `many` is the plural; empty: `one` and an s.
inline std::string CountText(uint64_t count, absl::string_view one,
                             absl::string_view many = "") {
  if (count == 1) return absl::StrCat("1 ", one);
  if (many.empty()) return absl::StrCat(GroupedText(count), " ", one, "s");
  return absl::StrCat(GroupedText(count), " ", many);
}

// A measured value (a rate, milliseconds): below 100, three significant digits.
// %g writes an exponent below 0.0001, where no measurement has a digit: "0".
inline std::string RateText(double rate) {
  if (rate > -0.0001 && rate < 0.0001) return "0";
  return rate < 100 ? absl::StrFormat("%.3g", rate) : GroupedText(rate);
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_COUNT_TEXT_H_
