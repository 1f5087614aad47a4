#include "server/data_tool/canvas.h"

#include <algorithm>
#include <utility>

#include "server/data_tool/bitmap_font.h"

namespace millrace {

RgbImage::RgbImage(int width, int height, Rgb fill)
    : width_(width),
      height_(height),
      bytes_(static_cast<size_t>(width) * height * 3) {
  Fill(0, 0, width, height, fill);
}

Rgb RgbImage::At(int x, int y) const {
  if (!Inside(x, y)) return {};
  const uint8_t* p = &bytes_[(static_cast<size_t>(y) * width_ + x) * 3];
  return {p[0], p[1], p[2]};
}

void RgbImage::Set(int x, int y, Rgb color) {
  if (!Inside(x, y)) return;
  uint8_t* p = &bytes_[(static_cast<size_t>(y) * width_ + x) * 3];
  p[0] = color.r;
  p[1] = color.g;
  p[2] = color.b;
}

void RgbImage::Fill(int left, int top, int width, int height, Rgb color) {
  for (int y = std::max(top, 0); y < std::min(top + height, height_); ++y) {
    for (int x = std::max(left, 0); x < std::min(left + width, width_); ++x) {
      Set(x, y, color);
    }
  }
}

void RgbImage::Paste(const RgbImage& other, int left, int top) {
  for (int y = 0; y < other.height(); ++y) {
    for (int x = 0; x < other.width(); ++x) {
      Set(left + x, top + y, other.At(x, y));
    }
  }
}

void RgbImage::Frame(int left, int top, int right, int bottom, Rgb color) {
  for (int x = std::max(left, 0); x <= std::min(right, width_ - 1); ++x) {
    Set(x, top, color);
    Set(x, bottom, color);
  }
  for (int y = std::max(top, 0); y <= std::min(bottom, height_ - 1); ++y) {
    Set(left, y, color);
    Set(right, y, color);
  }
}

void RgbImage::Text(absl::string_view text, int left, int top, Rgb color) {
  for (char c : text) {
    const Glyph& glyph = GlyphOf(c);
    for (int y = 0; y < static_cast<int>(glyph.size()); ++y) {
      for (int x = 0; x < kGlyphColumns; ++x) {
        if (glyph[y] >> (kGlyphColumns - 1 - x) & 1) {
          Set(left + x, top + y, color);
        }
      }
    }
    left += kGlyphWidth;
  }
}

RgbImage RgbImage::Scaled(int width, int height) const {
  RgbImage out(width, height);
  // The rows or columns [begin, end) that pixel `i` of `n` covers.
  const auto covered = [](int i, int n, int size) {
    const int begin = static_cast<int>(int64_t{i} * size / n);
    const int end = static_cast<int>((int64_t{i} + 1) * size / n);
    return std::pair{begin, std::max(end, begin + 1)};
  };
  for (int y = 0; y < height; ++y) {
    const auto [top, bottom] = covered(y, height, height_);
    for (int x = 0; x < width; ++x) {
      const auto [left, right] = covered(x, width, width_);
      int64_t r = 0, g = 0, b = 0;
      for (int yy = top; yy < bottom; ++yy) {
        for (int xx = left; xx < right; ++xx) {
          const Rgb color = At(xx, yy);
          r += color.r;
          g += color.g;
          b += color.b;
        }
      }
      const int64_t n = int64_t{bottom - top} * (right - left);
      const auto mean = [n](int64_t sum) {
        return static_cast<uint8_t>((sum + n / 2) / n);
      };
      out.Set(x, y, {mean(r), mean(g), mean(b)});
    }
  }
  return out;
}

RgbImage RgbImage::ScaledToFit(int width, int height) const {
  if (width_ == 0 || height_ == 0) return *this;
  const int factor = std::min(width / width_, height / height_);
  if (factor >= 1) return Scaled(width_ * factor, height_ * factor);
  // The longer side, in proportion, fills its room.
  int w = width;
  int h = static_cast<int>(int64_t{height_} * width / width_);
  if (h > height) {
    h = height;
    w = static_cast<int>(int64_t{width_} * height / height_);
  }
  return Scaled(std::max(w, 1), std::max(h, 1));
}

Rgb ClassColor(int index) {
  static constexpr Rgb kColors[] = {
      {230, 25, 75},  {60, 180, 75},  {255, 225, 25}, {0, 130, 200},
      {245, 130, 48}, {145, 30, 180}, {70, 240, 240}, {240, 50, 230},
      {210, 245, 60}, {0, 128, 128},  {170, 110, 40}, {128, 0, 0},
      {0, 0, 128},    {128, 128, 0},  {255, 255, 255}};
  constexpr int kCount = sizeof(kColors) / sizeof(kColors[0]);
  return kColors[((index % kCount) + kCount) % kCount];
}

}  // namespace millrace
