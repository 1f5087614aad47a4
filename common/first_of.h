// A list that a person reads: the first few of many, and how many more.
//
//   FirstOf({"a", "b"}, "; ", 7)  ->  "a; b; and 5 more"

#ifndef MILLRACE_COMMON_FIRST_OF_H_
#define MILLRACE_COMMON_FIRST_OF_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Max entries of a list that are written out; the caller may stop there.
inline constexpr size_t kMaxListed = 10;

// `first`: at least kMaxListed of `count` entries, or all of them.
inline std::string FirstOf(const std::vector<std::string>& first,
                           absl::string_view separator, int64_t count) {
  const size_t listed = first.size() < kMaxListed ? first.size() : kMaxListed;
  std::string text =
      absl::StrJoin(first.begin(), first.begin() + listed, separator);
  if (count > static_cast<int64_t>(listed)) {
    absl::StrAppend(&text, separator, "and ", count - listed, " more");
  }
  return text;
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_FIRST_OF_H_
