// Picture is a drawing as plain data: a list of items with positions. Pure
// functions lay it out (a contact sheet, a plot); PictureRenderer
// (picture_renderer.h) makes a PNG or SVG file of it.
//
// Value types. Coordinates are pixels from the upper left corner. Items are
// drawn in their order, each over those before it.
//
//   Picture picture{.width = 640, .height = 480};
//   picture.items.emplace_back(PictureFill{{0, 0, 640, 40}, {230, 230, 230}});
//   picture.items.emplace_back(PictureText{{10, 10, 200, 20}, "17 cat"});

#ifndef MILLRACE_COMMON_PICTURE_PICTURE_H_
#define MILLRACE_COMMON_PICTURE_PICTURE_H_

#include <string>
#include <variant>
#include <vector>

#include "common/picture/rgb_image.h"

namespace millrace::picture {

// Upper bound of a side, pixels.
inline constexpr int kMaxPictureSide = 32767;

struct PictureBox {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;

  double right() const { return left + width; }
  double bottom() const { return top + height; }
  friend bool operator==(const PictureBox&, const PictureBox&) = default;
};

struct PicturePoint {
  double x = 0;
  double y = 0;
  friend bool operator==(const PicturePoint&, const PicturePoint&) = default;
};

// A full rectangle; lines of axes are narrow ones.
struct PictureFill {
  PictureBox box;
  Rgb color;
};

// An image that fills the box: nearest pixels where the image grows, means over
// what a pixel covers where the image shrinks, its own pixels where the box has
// the image's size and whole coordinates.
struct PicturePixels {
  PictureBox box;
  RgbImage image;
};

// A closed line through the corners. What lies outside `clip` is not drawn.
struct PictureOutline {
  std::vector<PicturePoint> corners;
  Rgb color;
  double width = 1;
  PictureBox clip;
};

// One line of UTF-8. A text that is wider than the box ends in "..."; the box's
// height centres it. Characters that the font lacks become "?".
struct PictureText {
  enum class Align { kLeft, kCenter, kRight };
  PictureBox box;
  std::string text;
  double size = 12;  // of the font, pixels
  Rgb color = {40, 40, 40};
  Align align = Align::kLeft;
  bool bold = false;
};

using PictureItem =
    std::variant<PictureFill, PicturePixels, PictureOutline, PictureText>;

struct Picture {
  // Each 1 .. kMaxPictureSide.
  int width = 0;
  int height = 0;
  Rgb paper = {255, 255, 255};
  std::vector<PictureItem> items;
};

}  // namespace millrace::picture

#endif  // MILLRACE_COMMON_PICTURE_PICTURE_H_
