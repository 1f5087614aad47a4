// GaussianBlur smooths an image by kernel_size x kernel_size weights
// exp(-(x^2 + y^2) / (2 sigma^2)), normalised; beyond an edge the image is
// mirrored about its outermost pixel ([a b c] -> c b [a b c] b a), again and
// again when it is smaller than the kernel. torchvision's GaussianBlur, except
// that it refuses those small images. At most one level from it.
//
// It is separable: sums along y to 16 bits with 8 of fraction, then along x,
// in fixed point; the bytes are the same for every instruction set. Weights
// that vanish in 16 bits cost nothing.
//
// The draws: whether it is applied (a uniform number below p), then sigma.
//
//   auto op = MakeGaussianBlur({.place = 4, .kernel_size = 23});

#ifndef MILLRACE_SERVER_AUGMENT_GAUSSIAN_BLUR_H_
#define MILLRACE_SERVER_AUGMENT_GAUSSIAN_BLUR_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "common/aligned_buffer.h"
#include "server/augment/geometry.h"
#include "server/augment/pixel_op.h"

namespace millrace {

inline constexpr int kMaxBlurTaps = 255;

struct GaussianBlurOptions {
  uint32_t place = 0;  // in the spec
  double p = 1;
  int kernel_size = 3;     // odd, 1 to kMaxBlurTaps
  double sigma_min = 0.1;  // in pixels, above 0
  double sigma_max = 2;
};

std::unique_ptr<const PixelOp> MakeGaussianBlur(
    const GaussianBlurOptions& options);

// The blur alone. ResourceExhausted: no memory for the scratch.
absl::Status BlurPixels(ImageSpan image, int kernel_size, double sigma,
                        AlignedBuffer& scratch);

// At most what BlurPixels reserves.
int64_t BlurScratchBytes(Size size, int channels, int kernel_size);

}  // namespace millrace

#endif  // MILLRACE_SERVER_AUGMENT_GAUSSIAN_BLUR_H_
