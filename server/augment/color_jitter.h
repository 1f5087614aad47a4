// ColorJitter changes brightness, contrast, saturation and hue, each by a
// random amount and in random order, as in torchvision: every change maps bytes
// to bytes (server/augment/color_functions.h). Consecutive changes are made in
// one pass over the image. Only contrast, which needs the mean of the previous
// result, takes a second pass.
//
// All draws are always made, in this order: whether it is applied (a uniform
// number below p), the order (one of 24), then the brightness factor, the
// contrast factor, the saturation factor and the shift of the hue, each uniform
// in its interval.
//
//   auto op = MakeColorJitter({.place = 3, .brightness = {0.8, 1.2}});
//   MR_RETURN_IF_ERROR(op->Apply(image, context));

#ifndef MILLRACE_SERVER_AUGMENT_COLOR_JITTER_H_
#define MILLRACE_SERVER_AUGMENT_COLOR_JITTER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "server/augment/pixel_op.h"

namespace millrace::augment {

struct ColorJitterOptions {
  struct Interval {
    double low = 0;
    double high = 0;
  };
  uint32_t place = 0;  // in the spec
  double p = 1;
  // Absent: this change is left out. Factors are at least 0, shifts -0.5 to
  // 0.5; low is not above high.
  std::optional<Interval> brightness;
  std::optional<Interval> contrast;
  std::optional<Interval> saturation;
  std::optional<Interval> hue;
};

// Images of 1 and 3 channels. Saturation and hue do not change one channel.
std::unique_ptr<const PixelOp> MakeColorJitter(
    const ColorJitterOptions& options);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_COLOR_JITTER_H_
