#include "common/program/nearest_word.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace millrace::program {
namespace {

constexpr size_t kMinPrefix = 3;

// Letters to add, to remove or to replace.
size_t Edits(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1,
                         diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

absl::string_view NearestWord(absl::string_view typed,
                              absl::Span<const absl::string_view> words) {
  // Of a short word, every other one is only a few edits away.
  size_t limit = std::min<size_t>(3, (typed.size() + 1) / 3);
  absl::string_view nearest;
  for (const absl::string_view word : words) {
    const size_t edits = Edits(typed, word);
    if (edits > limit || (edits == limit && !nearest.empty())) continue;
    nearest = word;
    limit = edits;
  }
  if (!nearest.empty() || typed.size() < kMinPrefix) return nearest;
  for (const absl::string_view word : words) {
    if (absl::StartsWith(word, typed)) return word;
  }
  return "";
}

std::string DidYouMean(absl::string_view typed,
                       absl::Span<const absl::string_view> words,
                       absl::string_view prefix) {
  const absl::string_view nearest = NearestWord(typed, words);
  if (nearest.empty()) return "";
  return absl::StrCat("; did you mean ", prefix, nearest, "?");
}

}  // namespace millrace::program
