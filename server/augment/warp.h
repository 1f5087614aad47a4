// WarpPixels transforms an image by an AffineMap: each pixel of the result is
// read at the point given by the inverse map. Interleaved uint8, any number of
// channels. The same as torchvision's affine() on uint8 tensors, but in fixed
// point: the same bytes on every CPU.
//
//   nearest: the pixel whose square the point lies in
//   bilinear: the four pixels whose middles lie around the point, weights in
//     units of 1/4096; where some of them lie outside the image, `share` being
//     the weight of those inside,
//       (sum of the weighted pixels) * share + fill * (1 - share)
//     with `fill_given` as torchvision computes it with a fill (the edge is
//     darker than the fill and the image); without, the sum alone
//
// Pure function. Source and result do not overlap.
//
//   WarpPixels({.from = copy, .size = {224, 224}, .channels = 3,
//               .inverse = maps.inverse, .to = image, .to_stride = 672});

#ifndef MILLRACE_SERVER_AUGMENT_WARP_H_
#define MILLRACE_SERVER_AUGMENT_WARP_H_

#include <cstddef>
#include <cstdint>

#include "server/augment/affine_map.h"
#include "server/augment/geometry.h"
#include "server/augment/geometry_op.h"

namespace millrace::augment {

// Bytes after the source that may be read; their values do not matter.
inline constexpr size_t kWarpReadSlack = 16;

struct WarpJob {
  const uint8_t* from = nullptr;  // rows of size.width * channels bytes
  Size size;                      // of the source and of the result
  int channels = 3;
  AffineMap inverse;
  bool nearest = true;
  FillColor fill;
  bool fill_given = true;
  uint8_t* to = nullptr;
  ptrdiff_t to_stride = 0;
};

void WarpPixels(const WarpJob& job);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_WARP_H_
