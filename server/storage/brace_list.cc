#include "server/storage/brace_list.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace millrace::storage {
namespace {

struct Braces {
  size_t begin = 0;  // in the word
  size_t end = 0;
  bool range = false;  // of numbers
  uint64_t first = 0;
  uint64_t last = 0;
  int width = 0;                         // with leading zeros; 0: without
  std::vector<absl::string_view> words;  // of a list

  uint64_t count() const { return range ? last - first + 1 : words.size(); }
  std::string Word(uint64_t i) const {
    return range ? absl::StrFormat("%0*d", width, first + i)
                 : std::string(words[i]);
  }
};

bool IsNumber(absl::string_view text) {
  return !text.empty() && text.size() <= 18 &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// Whether `inside` is a range of numbers.
bool ParseRange(absl::string_view inside, Braces* braces) {
  const size_t dots = inside.find("..");
  if (dots == inside.npos) return false;
  const absl::string_view first = inside.substr(0, dots);
  const absl::string_view last = inside.substr(dots + 2);
  if (!IsNumber(first) || !IsNumber(last) ||
      !absl::SimpleAtoi(first, &braces->first) ||
      !absl::SimpleAtoi(last, &braces->last)) {
    return false;
  }
  const bool zeros = (first.size() > 1 && first[0] == '0') ||
                     (last.size() > 1 && last[0] == '0');
  braces->width =
      zeros ? static_cast<int>(std::max(first.size(), last.size())) : 0;
  braces->range = true;
  return true;
}

// The first range or list from `from` on; false: there is none.
bool FindBraces(absl::string_view word, size_t from, Braces* braces) {
  for (size_t open = word.find('{', from); open != word.npos;
       open = word.find('{', open + 1)) {
    const size_t close = word.find('}', open);
    if (close == word.npos) return false;
    const absl::string_view inside = word.substr(open + 1, close - open - 1);
    *braces = {.begin = open, .end = close + 1};
    if (ParseRange(inside, braces)) return true;
    // Of lists inside of each other, the inner one is a list alone.
    if (inside.find(',') == inside.npos || inside.find('{') != inside.npos) {
      continue;
    }
    braces->words = absl::StrSplit(inside, ',');
    return true;
  }
  return false;
}

}  // namespace

bool HasBraces(absl::string_view word) {
  Braces braces;
  return FindBraces(word, 0, &braces);
}

absl::StatusOr<std::vector<std::string>> ExpandBraces(absl::string_view word) {
  std::vector<std::string> words = {""};
  size_t at = 0;
  for (Braces braces; FindBraces(word, at, &braces); at = braces.end) {
    const absl::string_view before = word.substr(at, braces.begin - at);
    if (braces.range && braces.first > braces.last) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the range ", word.substr(braces.begin, braces.end - braces.begin),
          " falls; write the smaller number first"));
    }
    const uint64_t count = braces.count();
    if (count > kMaxBraceWords / words.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          word, " stands for more than ", kMaxBraceWords, " files"));
    }
    std::vector<std::string> longer;
    longer.reserve(words.size() * count);
    for (const std::string& start : words) {
      for (uint64_t i = 0; i < count; ++i) {
        longer.push_back(absl::StrCat(start, before, braces.Word(i)));
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
