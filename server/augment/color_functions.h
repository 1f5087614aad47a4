// The colour and tone functions of torchvision.transforms.v2.functional with an
// explicit strength, on uint8 pixels in place. The random transforms
// (ColorJitter, TrivialAugmentWide, RandAugment) use them.
//
// Compared with torchvision 0.26 on uint8 tensors: equal for posterize,
// solarize, autocontrast and equalize; at most one level different for the
// others (torchvision computes in float32, these functions in 16-bit fixed
// point). The bytes are the same on every CPU and for every instruction set.
//
// Pure functions of the image and the strength; thread-safe for different
// images. Images of 1 and 3 channels (RGB) of any size. Padding after the rows
// is neither read nor written. Nothing is allocated, except when a scratch
// buffer grows.
//
//   AdjustContrast(image, 1.2);
//   MR_RETURN_IF_ERROR(AdjustSharpness(image, 0.5, scratch));

#ifndef MILLRACE_SERVER_AUGMENT_COLOR_FUNCTIONS_H_
#define MILLRACE_SERVER_AUGMENT_COLOR_FUNCTIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/aligned_buffer.h"
#include "server/augment/geometry.h"
#include "server/augment/pixel_op.h"

namespace millrace::augment {

// A factor is at least 0 and finite. 1 changes nothing; 0 gives black, the mean
// grey, the grey image, or the smoothed image.
void AdjustBrightness(ImageSpan image, double factor);
void AdjustContrast(ImageSpan image, double factor);
// "Color" in TrivialAugmentWide. Grey images do not change.
void AdjustSaturation(ImageSpan image, double factor);
// The outermost rows and columns do not change, nor do images with a side of at
// most 2. ResourceExhausted: no memory for the scratch.
absl::Status AdjustSharpness(ImageSpan image, double factor,
                             AlignedBuffer& scratch);
// Max bytes that AdjustSharpness reserves.
int64_t SharpnessScratchBytes(Size size, int channels);

// Rotates the hue by `shift`, -0.5 to 0.5 of a full turn. Grey images do not
// change.
void AdjustHue(ImageSpan image, double shift);

// ITU-R 601 luma in every channel: floor(0.2989 r + 0.587 g + 0.114 b), so that
// white becomes 254, as in torchvision. Grey images do not change.
void MakeGrey(ImageSpan image);

// Keeps the upper `bits` (0 to 8) bits of every byte.
void Posterize(ImageSpan image, int bits);

// Inverts every byte that is at least `threshold` (torchvision: 255 times the
// magnitude of TrivialAugmentWide).
void Solarize(ImageSpan image, double threshold);

// Stretches each channel so that its darkest byte becomes 0 and its brightest
// 255.
void AutoContrast(ImageSpan image);

// Flattens each channel's histogram, by PIL's rule.
void Equalize(ImageSpan image);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_COLOR_FUNCTIONS_H_
