// Estimates the size of a text without a font, by a generous mean width of the
// letters of sans-serif fonts. A text that is still too wide is shortened when
// the picture is drawn (PictureText).
//
// Pure functions, safe from any thread.
//
//   for (const std::string& line : WrapText(caption, 300, 12, 3)) ...

#ifndef MILLRACE_COMMON_PICTURE_TEXT_LINES_H_
#define MILLRACE_COMMON_PICTURE_TEXT_LINES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace::picture {

// Pixels, of a font of `size` pixels.
double EstimatedTextWidth(absl::string_view text, double size);

// The height of the box of a line: its letters, also those that reach below.
double TextLineHeight(double size);

// Words on at most `max_lines` lines (1 or more) that are estimated to fit into
// `width` pixels. The last line holds the rest, a word that is too long stays
// whole. At least one line.
std::vector<std::string> WrapText(absl::string_view text, double width,
                                  double size, int max_lines);

}  // namespace millrace::picture

#endif  // MILLRACE_COMMON_PICTURE_TEXT_LINES_H_
