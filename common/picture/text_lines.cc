#include "common/picture/text_lines.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace millrace::picture {
namespace {

// Of a character, of the font's size: DejaVu Sans, a wide one, has 0.58 over
// the captions of contact sheets.
constexpr double kMeanWidth = 0.6;
// DejaVu Sans has 1.17 from its highest to its lowest letters.
constexpr double kLineHeight = 1.4;

// Bytes that do not go on a character of UTF-8.
size_t Characters(absl::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (c & 0xc0) != 0x80; });
}

}  // namespace

double EstimatedTextWidth(absl::string_view text, double size) {
  return kMeanWidth * size * static_cast<double>(Characters(text));
}

double TextLineHeight(double size) { return std::ceil(kLineHeight * size); }

std::vector<std::string> WrapText(absl::string_view text, double width,
                                  double size, int max_lines) {
  std::vector<std::string> lines(1);
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = std::string(word);
    } else if (const std::string longer = absl::StrCat(line, " ", word);
               EstimatedTextWidth(longer, size) <= width ||
               static_cast<int>(lines.size()) == max_lines) {
      line = longer;
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

}  // namespace millrace::picture
