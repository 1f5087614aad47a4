// RgbImage is a picture in memory with the little that a contact sheet needs:
// filling, copying, scaling, blending a mask, frames and text. For people to
// look at; nothing of it is on the way of training.
//
// Not thread-safe. Owns its pixels. What lies outside is cut off.
//
//   RgbImage sheet(640, 480, {255, 255, 255});
//   sheet.Paste(photo.ScaledToFit(200, 200), 10, 10);
//   sheet.Text("17 cat", 10, 214, {0, 0, 0});

#ifndef MILLRACE_SERVER_DATA_TOOL_CANVAS_H_
#define MILLRACE_SERVER_DATA_TOOL_CANVAS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace {

struct Rgb {
  uint8_t r = 0;
  uint8_t g = 0;
  uint8_t b = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};

class RgbImage {
 public:
  RgbImage() = default;
  RgbImage(int width, int height, Rgb fill = {});

  int width() const { return width_; }
  int height() const { return height_; }
  const std::vector<uint8_t>& bytes() const { return bytes_; }  // RGB, by rows

  // Black outside.
  Rgb At(int x, int y) const;
  void Set(int x, int y, Rgb color);

  void Fill(int left, int top, int width, int height, Rgb color);
  void Paste(const RgbImage& other, int left, int top);
  // One pixel wide, its corners inside.
  void Frame(int left, int top, int right, int bottom, Rgb color);
  // Letters 5 x 7 in cells of kGlyphWidth x kGlyphHeight; not ASCII: "?".
  void Text(absl::string_view text, int left, int top, Rgb color);

  // Means over what a pixel covers when it shrinks, nearest pixels when it
  // grows. Both sides at least 1.
  RgbImage Scaled(int width, int height) const;
  // As large as fits; grows by whole factors only, so that small images stay
  // what they are.
  RgbImage ScaledToFit(int width, int height) const;

 private:
  bool Inside(int x, int y) const {
    return x >= 0 && x < width_ && y >= 0 && y < height_;
  }

  int width_ = 0;
  int height_ = 0;
  std::vector<uint8_t> bytes_;
};

// Colours that are told apart: of class `index` of a mask, of box `index`.
Rgb ClassColor(int index);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_CANVAS_H_
