#include "server/augment/geometry.h"

#include <algorithm>
#include <cmath>

#include "common/short_side.h"
#include "server/augment/portable_math.h"

namespace millrace::augment {
namespace {

int64_t CenterStart(int64_t image, int64_t crop) {
  if (crop > image) return -((crop - image) / 2);
  const int64_t rest = image - crop;
  int64_t half = rest / 2;
  if (rest % 2 == 1 && half % 2 == 1) ++half;  // x.5 is rounded to even
  return half;
}

}  // namespace

Rect RandomCropRect(Size image, const CropDistribution& distribution,
                    CounterRandom& random) {
  constexpr int kTries = 10;
  const double area =
      static_cast<double>(image.width) * static_cast<double>(image.height);
  for (int i = 0; i < kTries; ++i) {
    const double target =
        area * random.Uniform(distribution.scale_min, distribution.scale_max);
    const double ratio = PortableExp(
        random.Uniform(distribution.log_ratio_min, distribution.log_ratio_max));
    const int64_t width = RoundHalfEven(std::sqrt(target * ratio));
    const int64_t height = RoundHalfEven(std::sqrt(target / ratio));
    if (width > 0 && width <= image.width && height > 0 &&
        height <= image.height) {
      const int64_t top = random.Below(image.height - height + 1);
      const int64_t left = random.Below(image.width - width + 1);
      return {left, top, width, height};
    }
  }
  const double ratio = static_cast<double>(image.width) / image.height;
  const double ratio_min = PortableExp(distribution.log_ratio_min);
  const double ratio_max = PortableExp(distribution.log_ratio_max);
  Size crop = image;
  if (ratio < ratio_min) {
    crop.height = RoundHalfEven(image.width / ratio_min);
  } else if (ratio > ratio_max) {
    crop.width = RoundHalfEven(image.height * ratio_max);
  }
  crop.width = std::clamp<int64_t>(crop.width, 1, image.width);
  crop.height = std::clamp<int64_t>(crop.height, 1, image.height);
  return {(image.width - crop.width) / 2, (image.height - crop.height) / 2,
          crop.width, crop.height};
}

Size ShortSideSize(Size image, int64_t short_side) {
  ResizeShortSide(short_side, image.height, image.width);
  return image;
}

Rect CenterRect(Size image, Size crop) {
  return {CenterStart(image.width, crop.width),
          CenterStart(image.height, crop.height), crop.width, crop.height};
}

}  // namespace millrace::augment
