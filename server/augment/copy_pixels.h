// Moves whole pixels without computing new values: copy, mirror, pad, nearest.
// Interleaved uint8, any number of channels.
//
// Pure functions. Strides are bytes from row to row and may be negative, which
// reverses the order of the rows. Source and destination do not overlap.
//
//   CopyPixels(from, 900, {224, 224}, 3, /*flip=*/true, to, 672);
//   FillAround(to, 672, {224, 224}, {8, 0, 200, 224}, FillColor(114), 3);

#ifndef MILLRACE_SERVER_AUGMENT_COPY_PIXELS_H_
#define MILLRACE_SERVER_AUGMENT_COPY_PIXELS_H_

#include <cstddef>
#include <cstdint>

#include "server/augment/axis_filter.h"
#include "server/augment/geometry.h"
#include "server/augment/geometry_op.h"

namespace millrace::augment {

// `flip`: column i goes to column size.width - 1 - i.
void CopyPixels(const uint8_t* from, ptrdiff_t from_stride, Size size,
                int channels, bool flip, uint8_t* to, ptrdiff_t to_stride);

// Writes `fill` to the canvas except `window`, which is inside the canvas and
// may be empty.
void FillAround(uint8_t* to, ptrdiff_t stride, Size canvas, const Rect& window,
                const FillColor& fill, int channels);

// An image and its continuation outside its edges: pixel (x, y) of `canvas`
// becomes pixel (SurroundSource(x - left, edge.width), SurroundSource(y - top,
// edge.height)) of an image of size `edge`. `from` is pixel (from_left,
// from_top) of that image; only the pixels that are read must exist. Not for
// Surround::kFill.
struct SurroundJob {
  const uint8_t* from = nullptr;
  ptrdiff_t from_stride = 0;
  int64_t from_left = 0;
  int64_t from_top = 0;
  Size edge;
  Surround surround = Surround::kEdge;
  int64_t left = 0;
  int64_t top = 0;
  int channels = 3;
  Size canvas;
  bool flip = false;
  uint8_t* to = nullptr;
  ptrdiff_t to_stride = 0;
};
void CopySurrounded(const SurroundJob& job);

// Pixel (x.start(i), y.start(j)) is copied to (i, j); mirrored if `flip` is
// set. `from` is the pixel (left, top).
struct NearestJob {
  const uint8_t* from = nullptr;
  ptrdiff_t from_stride = 0;
  int64_t left = 0;
  int64_t top = 0;
  const AxisFilter* x = nullptr;
  const AxisFilter* y = nullptr;
  int channels = 3;
  bool flip = false;
  uint8_t* to = nullptr;
  ptrdiff_t to_stride = 0;
};
void CopyNearest(const NearestJob& job);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_COPY_PIXELS_H_
