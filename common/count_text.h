// A number with its noun, for sentences that a person reads.
//
//   CountText(1, "sample")             ->  "1 sample"
//   CountText(0, "batch", "batches")   ->  "0 batches"

#ifndef MILLRACE_COMMON_COUNT_TEXT_H_
#define MILLRACE_COMMON_COUNT_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {

// `many` is the plural; empty: `one` and an s.
inline std::string CountText(uint64_t count, absl::string_view one,
                             absl::string_view many = "") {
  if (count == 1) return absl::StrCat(count, " ", one);
  if (many.empty()) return absl::StrCat(count, " ", one, "s");
  return absl::StrCat(count, " ", many);
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_COUNT_TEXT_H_
