// ResizePixels resizes interleaved uint8 pixels with 1 or 3 channels by two
// AxisFilters, in fixed point with SIMD selected for the CPU at run time. The
// result is written directly to its final place, mirrored on request. The bytes
// are the same for every instruction set: a weighted sum of bytes is defined in
// integers as
//
//   n <= 128 taps: (128 + n/2 + sum((x[k] * w[k]) >> 8)) >> 8
//   more:          (32768 + sum(x[k] * w[k])) >> 16
//
// and is applied along y first, with a result in bytes, then along x.
//
// Thread-safe; each thread has its own ResizeScratch. Allocates only when the
// scratch grows.
//
//   ResizePixels({.source = pixels, .source_stride = 900, .x = &x, .y = &y,
//           .channels = 3, .out = slot, .out_stride = 672}, scratch);

#ifndef MILLRACE_SERVER_AUGMENT_RESIZE_H_
#define MILLRACE_SERVER_AUGMENT_RESIZE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/aligned_buffer.h"
#include "server/augment/axis_filter.h"

namespace millrace::augment {

// Bytes after the last source row that may be read; their values do not matter.
inline constexpr size_t kResizeReadSlack = 256;

struct ResizeJob {
  // Pixel (source_left, source_top) in the coordinates of the filters. All rows
  // and columns that the filters read must exist.
  const uint8_t* source = nullptr;
  ptrdiff_t source_stride = 0;
  int64_t source_left = 0;
  int64_t source_top = 0;
  const AxisFilter* x = nullptr;
  const AxisFilter* y = nullptr;
  int channels = 3;
  // Written: x->count() * channels bytes in each of y->count() rows.
  uint8_t* out = nullptr;
  ptrdiff_t out_stride = 0;
  bool flip = false;  // column i goes to column x->count() - 1 - i
};

class ResizeScratch {
 public:
  // Reserves room for sources of `source_bytes` a row. False: there is no
  // memory.
  bool Reserve(int64_t source_bytes);
  // Frees memory that an unusually wide image has needed.
  void ReleaseAbove(size_t bytes) { columns_.ReleaseAbove(bytes); }
  // Bytes that it keeps for the next image.
  size_t kept_bytes() const { return tile_.capacity() + columns_.capacity(); }

  // Some rows of a strip of columns, between the two passes.
  uint8_t* tile() { return tile_.data(); }
  // A block of rows after the pass along y, transposed.
  uint8_t* columns() { return columns_.data(); }

 private:
  AlignedBuffer tile_;
  AlignedBuffer columns_;
};

// False: there is no memory for the scratch.
bool ResizePixels(const ResizeJob& job, ResizeScratch& scratch);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_RESIZE_H_
