// GaussianBlur smooths an image with kernel_size x kernel_size weights
// exp(-(x^2 + y^2) / (2 sigma^2)), normalised. Outside an edge the image is
// mirrored about its outermost pixel ([a b c] -> c b [a b c] b a), repeatedly
// if it is smaller than the kernel. The same as torchvision's GaussianBlur to
// within one level, except that torchvision refuses those small images.
//
// The blur is separable: sums along y to 16 bits with 8 fraction bits, then
// along x, in fixed point. The bytes are the same for every instruction set.
// Weights that are 0 in 16 bits cost no time.
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

namespace millrace::augment {

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

// Only the blur. ResourceExhausted: no memory for the scratch.
absl::Status BlurPixels(ImageSpan image, int kernel_size, double sigma,
                        AlignedBuffer& scratch);

// Max bytes that BlurPixels reserves.
int64_t BlurScratchBytes(Size size, int channels, int kernel_size);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_GAUSSIAN_BLUR_H_
