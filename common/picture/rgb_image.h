// RgbImage is pixels in memory, for pictures that people look at: no training
// path uses it.
//
// Value type. Owns its pixels.
//
//   RgbImage image(640, 480, {255, 255, 255});
//   image.Set(10, 20, {0, 0, 0});

#ifndef MILLRACE_COMMON_PICTURE_RGB_IMAGE_H_
#define MILLRACE_COMMON_PICTURE_RGB_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::picture {

struct Rgb {
  uint8_t r = 0;
  uint8_t g = 0;
  uint8_t b = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};

class RgbImage {
 public:
  RgbImage() = default;
  RgbImage(int width, int height, Rgb fill = {})
      : width_(width),
        height_(height),
        bytes_(static_cast<size_t>(width) * height * 3) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) Set(x, y, fill);
    }
  }

  int width() const { return width_; }
  int height() const { return height_; }
  const std::vector<uint8_t>& bytes() const { return bytes_; }  // RGB, by rows

  // Black outside.
  Rgb At(int x, int y) const {
    if (!Inside(x, y)) return {};
    const uint8_t* p = &bytes_[Offset(x, y)];
    return {p[0], p[1], p[2]};
  }
  // Nothing outside.
  void Set(int x, int y, Rgb color) {
    if (!Inside(x, y)) return;
    uint8_t* p = &bytes_[Offset(x, y)];
    p[0] = color.r;
    p[1] = color.g;
    p[2] = color.b;
  }

 private:
  bool Inside(int x, int y) const {
    return x >= 0 && x < width_ && y >= 0 && y < height_;
  }
  size_t Offset(int x, int y) const {
    return (static_cast<size_t>(y) * width_ + x) * 3;
  }

  int width_ = 0;
  int height_ = 0;
  std::vector<uint8_t> bytes_;
};

}  // namespace millrace::picture

#endif  // MILLRACE_COMMON_PICTURE_RGB_IMAGE_H_
