#include "server/storage/brace_list.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace::storage {
namespace {

struct Range {
  size_t begin = 0;  // of the braces in the word
  size_t end = 0;
  uint64_t first = 0;
  uint64_t last = 0;
  int width = 0;  // with leading zeros; 0: without
};

bool IsNumber(absl::string_view text) {
  return !text.empty() && text.size() <= 18 &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// The first range from `from` on; false: there is none.
bool FindRange(absl::string_view word, size_t from, Range* range) {
  for (size_t open = word.find('{', from); open != word.npos;
       open = word.find('{', open + 1)) {
    const size_t close = word.find('}', open);
    if (close == word.npos) return false;
    const absl::string_view inside = word.substr(open + 1, close - open - 1);
    const size_t dots = inside.find("..");
    if (dots == inside.npos) continue;
    const absl::string_view first = inside.substr(0, dots);
    const absl::string_view last = inside.substr(dots + 2);
    if (!IsNumber(first) || !IsNumber(last) ||
        !absl::SimpleAtoi(first, &range->first) ||
        !absl::SimpleAtoi(last, &range->last)) {
      continue;
    }
    range->begin = open;
    range->end = close + 1;
    const bool zeros = (first.size() > 1 && first[0] == '0') ||
                       (last.size() > 1 && last[0] == '0');
    range->width =
        zeros ? static_cast<int>(std::max(first.size(), last.size())) : 0;
    return true;
  }
  return false;
}

}  // namespace

bool HasBraceRange(absl::string_view word) {
  Range range;
  return FindRange(word, 0, &range);
}

absl::StatusOr<std::vector<std::string>> ExpandBraces(absl::string_view word) {
  std::vector<std::string> words = {""};
  size_t at = 0;
  for (Range range; FindRange(word, at, &range); at = range.end) {
    const absl::string_view before = word.substr(at, range.begin - at);
    if (range.first > range.last) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the range ", word.substr(range.begin, range.end - range.begin),
          " falls; write the smaller number first"));
    }
    const uint64_t count = range.last - range.first + 1;
    if (count > kMaxBraceWords / words.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          word, " stands for more than ", kMaxBraceWords, " files"));
    }
    std::vector<std::string> longer;
    longer.reserve(words.size() * count);
    for (const std::string& start : words) {
      for (uint64_t i = 0; i < count; ++i) {
        longer.push_back(absl::StrFormat("%s%s%0*d", start, before, range.width,
                                         range.first + i));
      }
    }
    words = std::move(longer);
  }
  for (std::string& each : words) {
    absl::StrAppend(&each, word.substr(at));
  }
  return words;
}

}  // namespace millrace::storage
