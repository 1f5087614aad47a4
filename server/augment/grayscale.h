// Grayscale replaces an RGB image by its grey values, in all three channels:
// torchvision's Grayscale(3) with p = 1, otherwise its RandomGrayscale. Grey
// images do not change.
//
// One draw: the transform is applied if a uniform number is below p.
//
//   auto op = MakeGrayscale({.place = 3, .p = 0.1});

#ifndef MILLRACE_SERVER_AUGMENT_GRAYSCALE_H_
#define MILLRACE_SERVER_AUGMENT_GRAYSCALE_H_

#include <cstdint>
#include <memory>

#include "server/augment/pixel_op.h"

namespace millrace::augment {

struct GrayscaleOptions {
  uint32_t place = 0;  // in the spec
  double p = 1;
};

std::unique_ptr<const PixelOp> MakeGrayscale(const GrayscaleOptions& options);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_GRAYSCALE_H_
