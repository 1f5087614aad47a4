// RandomErasing paints over a random rectangle. Z. Zhong et al., "Random
// Erasing Data Augmentation", AAAI 2020; the rectangle is drawn as
// torchvision's RandomErasing draws it: ten tries of an area uniform in scale
// and a ratio (height / width) uniform in its logarithm, the first whose sides
// are both less than the image's; none: nothing is erased.
//
// The draws: whether it is applied (a uniform number below p); then for each
// try the area and the ratio; then the top and the left place; then, with
// random_value, eight bytes a draw for the rectangle's bytes, row by row, each
// row beginning with a new draw.
//
//   auto op = MakeRandomErasing({.place = 5, .p = 0.25});

#ifndef MILLRACE_SERVER_AUGMENT_RANDOM_ERASING_H_
#define MILLRACE_SERVER_AUGMENT_RANDOM_ERASING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "server/augment/geometry.h"
#include "server/augment/pixel_op.h"
#include "server/augment/random.h"

namespace millrace {

struct RandomErasingOptions {
  uint32_t place = 0;  // in the spec
  double p = 0.5;
  double scale_min = 0.02;  // share of the image's area, 0 to 1
  double scale_max = 0.33;
  double ratio_min = 0.3;  // above 0
  double ratio_max = 3.3;
  // Of the painted pixels: none: 0; one for all channels, or one for each.
  std::vector<uint8_t> value;
  // Every byte uniform on 0 .. 255 instead.
  bool random_value = false;
};

// Any number of channels.
std::unique_ptr<const PixelOp> MakeRandomErasing(RandomErasingOptions options);

// The rectangle, of width 0 when all tries failed.
Rect RandomErasingRect(Size image, const RandomErasingOptions& options,
                       CounterRandom& random);

}  // namespace millrace

#endif  // MILLRACE_SERVER_AUGMENT_RANDOM_ERASING_H_
