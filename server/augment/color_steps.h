// ColorStep is a colour change of single pixels: brightness, contrast about a
// known mean, saturation, hue, grey. ApplyColorSteps applies several steps in
// one pass over the image, with SIMD selected for the CPU at run time. It does
// not know the random choices and the names in the spec.
//
// The bytes are the same for every instruction set: each step is defined in
// 16-bit integers, from bytes to bytes. With T fraction bits, >> rounding down
// and no difference below 0:
//
//   weaken:     (((x * multiplier) >> 8) + offset) >> T
//
//   strengthen: min(255, (((x * multiplier) >> 8) - offset) >> T)
//
//   less:       (((x * multiplier) >> 8) + ((grey * other) >> 8) + 1) >> T
//
//   more:       min(255, (((x * multiplier) >> 8) - ((grey * other) >> 8)) >>
//               T)
//
//   grey:       floor((2989 r + 5870 g + 1140 b) / 10000)
//
// The multipliers are rounded so that whole results of the formula stay exact:
// a factor of 1, and the saturation of a grey image.
//
// Hue needs no division. With M and m the largest and the smallest of r, g, b
// and R = M - m, the hue times 6 R is a whole number: h = g - b where red is
// largest, 2 R + b - r where green is, 4 R + r - g where blue is. It is turned
// by 6 R * shift, in sixteenths, into [0, 6 R). Then
//
//   red = m + clamp(|h - 3 R| - R), green = m + clamp(2 R - |h - 2 R|),
//   blue = m + clamp(2 R - |h - 4 R|),   clamp to 0 .. R,
//
// which is HSV's formula times S V, and a byte is floor(v * 257 / 256): the
// thresholds of torchvision's conversion, floor(v / 255 * 255.999).
//
// Pure functions; thread-safe for different images.
//
//   const ColorStep steps[] = {BrightnessStep(1.2), SaturationStep(0.9)};
//   ApplyColorSteps(image, steps);

#ifndef MILLRACE_SERVER_AUGMENT_COLOR_STEPS_H_
#define MILLRACE_SERVER_AUGMENT_COLOR_STEPS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/augment/pixel_op.h"

namespace millrace::augment {

struct ColorStep {
  // Weaken and strengthen: brightness, and contrast about a known mean. Less
  // and more: saturation.
  enum class Kind : uint8_t {
    kWeaken,
    kStrengthen,
    kLess,
    kMore,
    kHue,
    kGrey,
  };
  Kind kind = Kind::kWeaken;
  uint8_t fraction_bits = 0;  // T
  uint16_t multiplier = 0;
  uint16_t other = 0;   // kLess, kMore
  uint16_t offset = 0;  // kWeaken, kStrengthen
};

// Factors are at least 0 and finite. A factor above 255.996 counts as 255.996,
// where a difference of one level already covers the whole range.
ColorStep BrightnessStep(double factor);
ColorStep ContrastStep(double factor, double mean);  // mean: 0 .. 255
ColorStep SaturationStep(double factor);
ColorStep HueStep(double shift);  // -0.5 .. 0.5 of a turn
ColorStep GreyStep();

// x * factor + y * (1 - factor) for bytes x and y, in the form of kLess and
// kMore. Sharpness uses this step, too.
ColorStep BlendStep(double factor);

// Applies the steps in order. The image has 1 or 3 channels; with 1 channel
// only kWeaken and kStrengthen change it.
void ApplyColorSteps(ImageSpan image, absl::Span<const ColorStep> steps);

// Applies `before`, then contrast about the mean grey value of the result (with
// one channel: the mean byte), then `after`, in two passes over the image.
void ApplyColorStepsAndContrast(ImageSpan image,
                                absl::Span<const ColorStep> before,
                                double contrast_factor,
                                absl::Span<const ColorStep> after);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_COLOR_STEPS_H_
