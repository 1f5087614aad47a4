#include "server/augment/color_functions.h"

#include "server/augment/color_steps.h"

namespace millrace::augment {

// sharpness.cc and tone_curve.cc have the other functions.

void AdjustBrightness(ImageSpan image, double factor) {
  const ColorStep step = BrightnessStep(factor);
  ApplyColorSteps(image, {&step, 1});
}

void AdjustContrast(ImageSpan image, double factor) {
  ApplyColorStepsAndContrast(image, {}, factor, {});
}

void AdjustSaturation(ImageSpan image, double factor) {
  if (image.channels == 1) return;
  const ColorStep step = SaturationStep(factor);
  ApplyColorSteps(image, {&step, 1});
}

void AdjustHue(ImageSpan image, double shift) {
  if (image.channels == 1) return;
  const ColorStep step = HueStep(shift);
  ApplyColorSteps(image, {&step, 1});
}

void MakeGrey(ImageSpan image) {
  if (image.channels == 1) return;
  const ColorStep step = GreyStep();
  ApplyColorSteps(image, {&step, 1});
}

}  // namespace millrace::augment
