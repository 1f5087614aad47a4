// ColorJitter changes brightness, contrast, saturation and hue, each by a
// random amount and in random order, as torchvision's does: every change goes
// from bytes to bytes (server/augment/color_functions.h). What stands between
// two ends is done in one pass over the image: only contrast, which needs the
// mean of what comes before it, makes a second.
//
// The draws, always all of them and in this order: whether it is applied (a
// uniform number below p), the order (one of 24), then the brightness factor,
// the contrast factor, the saturation factor and the hue's shift, each uniform
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

namespace millrace {

struct ColorJitterOptions {
  struct Interval {
    double low = 0;
    double high = 0;
  };
  uint32_t place = 0;  // in the spec
  double p = 1;
  // Absent: that one is left out. Factors are at least 0, shifts -0.5 to 0.5;
  // low is not above high.
  std::optional<Interval> brightness;
  std::optional<Interval> contrast;
  std::optional<Interval> saturation;
  std::optional<Interval> hue;
};

// Images of 1 and 3 channels; saturation and hue leave one channel as it is.
std::unique_ptr<const PixelOp> MakeColorJitter(
    const ColorJitterOptions& options);

}  // namespace millrace

#endif  // MILLRACE_SERVER_AUGMENT_COLOR_JITTER_H_
