// RandomErasing paints over a random rectangle. Z. Zhong et al., "Random
// Erasing Data Augmentation", AAAI 2020. The rectangle is drawn as in
// torchvision's RandomErasing: ten tries with an area uniform in scale and a
// ratio (height / width) uniform in its logarithm. The first try whose sides
// are both less than the image's counts. If all fail, nothing is erased.
//
// The draws: whether it is applied (a uniform number below p); for each try the
// area and the ratio; the top and the left place; with random_value, eight
// bytes a draw for the bytes of the rectangle, row by row, each row beginning
// with a new draw.
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

namespace millrace::augment {

struct RandomErasingOptions {
  uint32_t place = 0;  // in the spec
  double p = 0.5;
  double scale_min = 0.02;  // share of the image's area, 0 to 1
  double scale_max = 0.33;
  double ratio_min = 0.3;  // above 0
  double ratio_max = 3.3;
  // The value of the painted pixels: none (0), one for all channels, or one for
  // each channel.
  std::vector<uint8_t> value;
  // Paints random bytes, uniform on 0 .. 255, instead of `value`.
  bool random_value = false;
};

// Any number of channels.
std::unique_ptr<const PixelOp> MakeRandomErasing(RandomErasingOptions options);

// The rectangle; of width 0 if all tries failed.
Rect RandomErasingRect(Size image, const RandomErasingOptions& options,
                       CounterRandom& random);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_RANDOM_ERASING_H_
