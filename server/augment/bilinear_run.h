// BilinearRun draws a run of RGB pixels of a warp's row
// (server/augment/warp.h). All four neighbours of each pixel are inside the
// source. Integer SIMD, selected for the CPU at run time; the same bytes for
// every instruction set. It is the inner loop of WarpPixels, in a file of its
// own because it is compiled once for each instruction set.
//
//   sum over the four neighbours of (pixel * weight), weights in units of
//   1/4096 that sum to 4096; (sum + 2048) >> 12
//
// Pure function.

#ifndef MILLRACE_SERVER_AUGMENT_BILINEAR_RUN_H_
#define MILLRACE_SERVER_AUGMENT_BILINEAR_RUN_H_

#include <cstddef>
#include <cstdint>

namespace millrace::augment {

// Weights of the pixels above left, above right, below left, below right.
struct BilinearWeights {
  static constexpr int kBits = 12;
  static constexpr int32_t kOne = 1 << kBits;
  int32_t w00, w01, w10, w11;
};

// The weights at a point whose coordinates have `bits` fraction bits.
inline BilinearWeights WeightsAt(int64_t x, int64_t y, int bits) {
  constexpr int32_t kOne = BilinearWeights::kOne;
  const int shift = bits - BilinearWeights::kBits;
  const int32_t fx = static_cast<int32_t>(x >> shift) & (kOne - 1);
  const int32_t fy = static_cast<int32_t>(y >> shift) & (kOne - 1);
  const int32_t w11 = (fx * fy + kOne / 2) >> BilinearWeights::kBits;
  return {kOne - fx - fy + w11, fx - w11, fy - w11, w11};
}

struct BilinearRun {
  // Pixel (0, 0) of the source. 16 bytes after the end of the source may be
  // read.
  const uint8_t* from = nullptr;
  ptrdiff_t from_stride = 0;
  // The first pixel's place in the source, and the step to the next pixel's
  // place.
  int64_t x = 0;
  int64_t y = 0;
  int64_t step_x = 0;
  int64_t step_y = 0;
  int bits = 32;  // fraction bits, at least BilinearWeights::kBits
  int64_t count = 0;
  uint8_t* to = nullptr;  // exactly 3 * count bytes are written
};

void DrawBilinearRun(const BilinearRun& run);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_BILINEAR_RUN_H_
