// An image whose rows have a guard behind them, to see that nothing else is
// written.

#ifndef MILLRACE_TESTS_SERVER_AUGMENT_PADDED_IMAGE_H_
#define MILLRACE_TESTS_SERVER_AUGMENT_PADDED_IMAGE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "server/augment/pixel_op.h"
#include "server/augment/random.h"

namespace millrace::augment {

class PaddedImage {
 public:
  // `guard` bytes behind each row, and as many before the first.
  PaddedImage(int64_t height, int64_t width, int channels, int64_t guard)
      : height_(height),
        width_(width),
        channels_(channels),
        guard_(guard),
        bytes_(guard + height * (width * channels + guard), kGuard) {}

  int64_t row_bytes() const { return width_ * channels_; }
  uint8_t* row(int64_t y) {
    return bytes_.data() + guard_ + y * (row_bytes() + guard_);
  }
  ImageSpan span() {
    return {row(0), height_, width_, channels_, row_bytes() + guard_};
  }

  void FillNoise(uint64_t key) {
    CounterRandom random(key, 0);
    for (int64_t y = 0; y < height_; ++y) {
      for (int64_t i = 0; i < row_bytes(); ++i) {
        row(y)[i] = static_cast<uint8_t>(random.Next64() >> 56);
      }
    }
  }
  void FillPixels(const std::vector<uint8_t>& pixels) {
    for (int64_t y = 0; y < height_; ++y) {
      std::copy_n(pixels.data() + y * row_bytes(), row_bytes(), row(y));
    }
  }

  std::vector<uint8_t> pixels() {
    std::vector<uint8_t> out;
    for (int64_t y = 0; y < height_; ++y) {
      out.insert(out.end(), row(y), row(y) + row_bytes());
    }
    return out;
  }

  void ExpectGuardsIntact() {
    for (int64_t y = 0; y <= height_; ++y) {
      const uint8_t* const end =
          y < height_ ? row(y) : row(y - 1) + row_bytes() + guard_;
      EXPECT_TRUE(
          std::all_of(end - guard_, end, [](uint8_t b) { return b == kGuard; }))
          << "beside row " << y;
    }
  }

 private:
  static constexpr uint8_t kGuard = 0xA5;
  const int64_t height_, width_;
  const int channels_;
  const int64_t guard_;
  std::vector<uint8_t> bytes_;
};

}  // namespace millrace::augment

#endif  // MILLRACE_TESTS_SERVER_AUGMENT_PADDED_IMAGE_H_
