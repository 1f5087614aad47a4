#include "server/data_tool/contact_sheet.h"

#include <algorithm>

#include "server/data_tool/bitmap_font.h"

namespace millrace {
namespace {

constexpr int kGap = 4;       // around everything
constexpr int kPairGap = 12;  // between pairs of a row
constexpr int kWantedWidth = 1200;
constexpr Rgb kPaper = {250, 250, 250};
constexpr Rgb kRoom = {225, 225, 225};
constexpr Rgb kInk = {40, 40, 40};

void Show(const RgbImage& picture, int left, int top, int cell,
          RgbImage& sheet) {
  sheet.Fill(left, top, cell, cell, kRoom);
  sheet.Paste(picture, left + (cell - picture.width()) / 2,
              top + (cell - picture.height()) / 2);
}

}  // namespace

RgbImage DrawContactSheet(const std::vector<SheetPair>& pairs,
                          const SheetOptions& options) {
  const int cell = options.cell;
  const int pair_width = 2 * cell + kGap;
  const int pair_height = cell + kGlyphHeight + 2 * kGap;
  const int count = std::max(1, static_cast<int>(pairs.size()));
  int columns = options.columns;
  if (columns <= 0) {
    columns = std::max(1, (kWantedWidth + kPairGap) / (pair_width + kPairGap));
  }
  columns = std::min(columns, count);
  const int rows = (count + columns - 1) / columns;
  const int head = kGlyphHeight + kGap;
  RgbImage sheet(2 * kGap + columns * pair_width + (columns - 1) * kPairGap,
                 kGap + head + rows * pair_height, kPaper);
  for (int column = 0; column < columns; ++column) {
    const int left = kGap + column * (pair_width + kPairGap);
    sheet.Text("before", left, kGap, kInk);
    sheet.Text("after", left + cell + kGap, kGap, kInk);
  }
  if (pairs.empty()) sheet.Text("no sample", kGap, kGap + head, kInk);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const int column = static_cast<int>(i) % columns;
    const int row = static_cast<int>(i) / columns;
    const int left = kGap + column * (pair_width + kPairGap);
    const int top = kGap + head + row * pair_height;
    Show(pairs[i].before, left, top, cell, sheet);
    Show(pairs[i].after, left + cell + kGap, top, cell, sheet);
    const size_t letters = std::max(1, pair_width / kGlyphWidth);
    sheet.Text(absl::string_view(pairs[i].caption).substr(0, letters), left,
               top + cell + kGap, kInk);
  }
  return sheet;
}

}  // namespace millrace
