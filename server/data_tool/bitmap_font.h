// A font of 5 x 7 dots for the captions of pictures: the printable characters
// of ASCII.

#ifndef MILLRACE_SERVER_DATA_TOOL_BITMAP_FONT_H_
#define MILLRACE_SERVER_DATA_TOOL_BITMAP_FONT_H_

#include <array>
#include <cstdint>

namespace millrace {

inline constexpr int kGlyphColumns = 5;
// With the gap to the next one.
inline constexpr int kGlyphWidth = 6;
inline constexpr int kGlyphHeight = 9;

// Rows from the top; the highest of the five bits is the left dot.
using Glyph = std::array<uint8_t, 7>;

// "?" for what is not printable ASCII.
const Glyph& GlyphOf(char c);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_BITMAP_FONT_H_
