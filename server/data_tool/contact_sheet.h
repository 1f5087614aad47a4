// The layout of a contact sheet: a head, and rows of picture pairs (before and
// after the transforms) with captions below.
//
// Pure function, safe from any thread. Nothing is drawn here: see
// common/picture/picture_renderer.h.
//
//   const Picture sheet = LayOutContactSheet(head, pairs, {.cell = 224});

#ifndef MILLRACE_SERVER_DATA_TOOL_CONTACT_SHEET_H_
#define MILLRACE_SERVER_DATA_TOOL_CONTACT_SHEET_H_

#include <string>
#include <vector>

#include "common/picture/picture.h"

namespace millrace::data_tool {

// Of an object in a picture, in pixels of the picture.
struct SheetBox {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  picture::Rgb color;
};

struct SheetPicture {
  picture::RgbImage pixels;  // of any size; none: the room stays empty
  std::vector<SheetBox> boxes;
  std::string caption;  // "before: 500 x 375"
};

// All texts are UTF-8 of one line.
struct SheetPair {
  SheetPicture before;
  SheetPicture after;
  // Corners of the part of `before` that `after` shows, in pixels of
  // before.pixels. Empty: no frame.
  std::vector<picture::PicturePoint> kept;
  std::string title;               // "row 0: sample 17"
  std::vector<std::string> lines;  // "horizontal_flip: flipped"
};

struct SheetHead {
  std::string title;
  std::vector<std::string> lines;
};

struct SheetOptions {
  int cell = 224;  // width and height of a picture's room, pixels
  // Pairs in a row; 0: as many as fit into 1200 pixels, or more if the sheet
  // would exceed the max height of a picture.
  int columns = 0;
};

// Pictures are enlarged by whole factors only, so that pixels stay sharp.
// Without pairs the sheet says so. The result may be larger than
// kMaxPictureSide.
picture::Picture LayOutContactSheet(const SheetHead& head,
                                    const std::vector<SheetPair>& pairs,
                                    const SheetOptions& options);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_CONTACT_SHEET_H_
