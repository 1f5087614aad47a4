// Sizes and rectangles of the geometric transforms, by the rules of torchvision
// v2. It does not know pixels.
//
// Pure functions and value types.
//
//   Rect crop = RandomCropRect(w, h, {}, random);
//   Rect middle = CenterRect(w, h, 224, 224);

#ifndef MILLRACE_SERVER_AUGMENT_GEOMETRY_H_
#define MILLRACE_SERVER_AUGMENT_GEOMETRY_H_

#include <cstdint>

#include "server/augment/random.h"

namespace millrace::augment {

struct Size {
  int64_t width = 0;
  int64_t height = 0;
  friend bool operator==(const Size&, const Size&) = default;
};

// Pixels [left, left + width) x [top, top + height).
struct Rect {
  int64_t left = 0;
  int64_t top = 0;
  int64_t width = 0;
  int64_t height = 0;
  friend bool operator==(const Rect&, const Rect&) = default;
};

// Parameters of RandomResizedCrop; the defaults are torchvision's.
struct CropDistribution {
  double scale_min = 0.08;  // share of the image's area
  double scale_max = 1.0;
  double log_ratio_min = -0.28768207245178092;  // ln 3/4, of width / height
  double log_ratio_max = 0.28768207245178092;   // ln 4/3
};

// RandomResizedCrop.get_params of torchvision: ten tries with an area uniform
// in scale and a ratio uniform in its logarithm, placed uniformly. If all fail:
// the largest centred crop with an allowed ratio.
Rect RandomCropRect(Size image, const CropDistribution& distribution,
                    CounterRandom& random);

// The size of an image after a resize of its short side to `short_side`. The
// long side is rounded down, as in torchvision.
Size ShortSideSize(Size image, int64_t short_side);

// The middle of the image, rounded as in torchvision's center_crop (ties to
// even). On an axis where the image is smaller than the crop, the rectangle
// begins at a negative place; the part outside the image is padding.
Rect CenterRect(Size image, Size crop);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_GEOMETRY_H_
