// RandomRotation and RandomAffine of torchvision.transforms.v2: the draws,
// which also move boxes, and the operation on pixels of images and masks. The
// result has the size of the image.
//
// Pure functions; the operation is immutable and thread-safe.
//
//   RandomAffineOptions options;
//   options.degrees_min = -15;
//   options.degrees_max = 15;
//   std::unique_ptr<PixelOp> op = MakeRandomAffine(options);
//
// Draws come from CounterRandom(sample_key, place), in this order: when p is
// below 1, one Uniform(), which must be below p; the angle; and without
// `rotation` the shift along x, the shift along y, the scale, the shear along x
// and the shear along y. Each is one Uniform(), even if its range is a single
// value. Shifts are rounded to whole pixels, ties to even.

#ifndef MILLRACE_SERVER_AUGMENT_RANDOM_AFFINE_H_
#define MILLRACE_SERVER_AUGMENT_RANDOM_AFFINE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "common/aligned_buffer.h"
#include "server/augment/affine_map.h"
#include "server/augment/geometry.h"
#include "server/augment/geometry_op.h"
#include "server/augment/parameter_log.h"
#include "server/augment/pixel_op.h"

namespace millrace::augment {

struct RandomAffineOptions {
  uint32_t place = 0;
  // True: RandomRotation, with only the angle, counter-clockwise. False:
  // RandomAffine, clockwise as in torchvision.
  bool rotation = false;
  double degrees_min = 0;
  double degrees_max = 0;
  double translate_x = 0;  // largest shift as a share of the side
  double translate_y = 0;
  double scale_min = 1;
  double scale_max = 1;
  double shear_x_min = 0;  // degrees, within -90 .. 90 (excluded)
  double shear_x_max = 0;
  double shear_y_min = 0;
  double shear_y_max = 0;
  double probability = 1;
  bool nearest = true;
  FillColor fill;
};

// Draws the maps for an image of `size`. False: nothing is done, and `maps` is
// unspecified. `log` may be null.
bool DrawAffine(const RandomAffineOptions& options, uint64_t sample_key,
                Size size, ParameterLog* log, AffinePair& maps);

std::unique_ptr<const PixelOp> MakeRandomAffine(
    const RandomAffineOptions& options);

// Bytes that WarpInPlace reserves of its scratch.
int64_t WarpScratchBytes(Size size, int channels);

// WarpPixels in place. ResourceExhausted: no memory for the scratch.
absl::Status WarpInPlace(ImageSpan image, const AffineMap& inverse,
                         bool nearest, const FillColor& fill, bool fill_given,
                         AlignedBuffer& scratch);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_RANDOM_AFFINE_H_
