// TrivialAugmentWide and RandAugment of torchvision.transforms.v2: operations
// drawn from a set of fourteen, each with a strength from a table, applied one
// after the other to the pixels of an image of 1 or 3 channels.
//
// The operation is immutable and thread-safe.
//
//   std::unique_ptr<const PixelOp> op = MakeAutoAugment({.place = 2});
//   MR_RETURN_IF_ERROR(op->Apply(image, context));
//
// Draws come from CounterRandom(sample_key, place), in this order: when p is
// below 1, one Uniform(), which must be below p. Then for each operation:
// Below(14) selects it; for `wide`, if it has a strength, Below(bins) selects
// the strength; if the strength has a sign, one Uniform() makes it negative
// when the result is at most 0.5.
//
// Strength i of n, as torchvision has it (`side` is the width for TranslateX,
// the height for TranslateY; * with a sign):
//
//                        wide                   otherwise
//   ShearX, ShearY *     0.99 i / (n - 1)       0.3 i / (n - 1)
//   TranslateX, -Y *     32 i / (n - 1)         150 / 331 side i / (n - 1)
//                        (the fraction is dropped; in float32 torchvision's own
//                        32 * 15 / 30 is 15 on some CPUs and 16 on others)
//   Rotate *             135 i / (n - 1)        30 i / (n - 1)     degrees
//   Brightness, Color, Contrast, Sharpness *
//                        1 + 0.99 i / (n - 1)   1 + 0.9 i / (n - 1)
//   Posterize            8 - 6 i / (n - 1)      8 - 4 i / (n - 1)
//                        (bits, rounded)
//   Solarize             255 (1 - i / (n - 1))  255 (1 - i / (n - 1))
//
// Identity, AutoContrast and Equalize have no strength.

#ifndef MILLRACE_SERVER_AUGMENT_AUTO_AUGMENT_H_
#define MILLRACE_SERVER_AUGMENT_AUTO_AUGMENT_H_

#include <cstdint>
#include <memory>

#include "server/augment/geometry_op.h"
#include "server/augment/pixel_op.h"

namespace millrace::augment {

struct AutoAugmentOptions {
  uint32_t place = 0;
  // True: TrivialAugmentWide, which draws the strength, from wider ranges.
  // False: RandAugment.
  bool wide = true;
  int num_ops = 1;
  int magnitude = 9;  // not for wide; 0 .. bins - 1
  int bins = 31;      // at least 2
  bool nearest = true;
  // If it is zero, edges are blended as in torchvision with fill=None.
  FillColor fill;
  double probability = 1;
};

std::unique_ptr<const PixelOp> MakeAutoAugment(
    const AutoAugmentOptions& options);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_AUTO_AUGMENT_H_
