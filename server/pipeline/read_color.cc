#include "server/pipeline/read_color.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/augment/color_jitter.h"
#include "server/augment/gaussian_blur.h"
#include "server/augment/grayscale.h"
#include "server/augment/random_erasing.h"

namespace millrace {
namespace {

using OpOr = absl::StatusOr<std::unique_ptr<const PixelOp>>;

// Where a parameter stands, for errors.
struct Where {
  absl::string_view name;
  uint32_t place;

  absl::Status Invalid(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " (transform ", place, "): ", what));
  }
};

template <typename Message>
absl::Status ReadProbability(const Where& where, const Message& message,
                             double& p) {
  if (message.has_p()) p = message.p();
  if (p >= 0 && p <= 1) return absl::OkStatus();
  return where.Invalid(absl::StrCat("p is ", p, "; it must be 0 to 1"));
}

absl::Status CheckInterval(const Where& where, absl::string_view what,
                           double low, double high, double least,
                           double largest) {
  if (least <= low && low <= high && high <= largest && std::isfinite(high)) {
    return absl::OkStatus();
  }
  return where.Invalid(absl::StrCat(what, " is ", low, " to ", high,
                                    "; it must rise within ", least, " to ",
                                    largest));
}

absl::Status CheckColors(const Where& where, int channels) {
  if (channels == 1 || channels == 3) return absl::OkStatus();
  return where.Invalid(absl::StrCat(
      "it works on images of 1 and 3 channels; this one has ", channels));
}

OpOr Read(const Where& where, const ColorJitter& jitter, int channels) {
  ColorJitterOptions options;
  options.place = where.place;
  MR_RETURN_IF_ERROR(CheckColors(where, channels));
  MR_RETURN_IF_ERROR(ReadProbability(where, jitter, options.p));
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  auto interval = [&](absl::string_view what, double low, double high,
                      double least, double largest,
                      std::optional<ColorJitterOptions::Interval>& to) {
    if (low == 0 && high == 0) return absl::OkStatus();
    to = {low, high};
    return CheckInterval(where, what, low, high, least, largest);
  };
  MR_RETURN_IF_ERROR(interval("brightness", jitter.brightness_min(),
                              jitter.brightness_max(), 0, kInfinite,
                              options.brightness));
  MR_RETURN_IF_ERROR(interval("contrast", jitter.contrast_min(),
                              jitter.contrast_max(), 0, kInfinite,
                              options.contrast));
  MR_RETURN_IF_ERROR(interval("saturation", jitter.saturation_min(),
                              jitter.saturation_max(), 0, kInfinite,
                              options.saturation));
  MR_RETURN_IF_ERROR(interval("hue", jitter.hue_min(), jitter.hue_max(), -0.5,
                              0.5, options.hue));
  return MakeColorJitter(options);
}

OpOr Read(const Where& where, const Grayscale& grayscale, int channels) {
  GrayscaleOptions options;
  options.place = where.place;
  MR_RETURN_IF_ERROR(CheckColors(where, channels));
  MR_RETURN_IF_ERROR(ReadProbability(where, grayscale, options.p));
  return MakeGrayscale(options);
}

OpOr Read(const Where& where, const GaussianBlur& blur) {
  GaussianBlurOptions options;
  options.place = where.place;
  MR_RETURN_IF_ERROR(ReadProbability(where, blur, options.p));
  if (blur.kernel_size() % 2 == 0 || blur.kernel_size() > kMaxBlurTaps) {
    return where.Invalid(absl::StrCat("kernel_size is ", blur.kernel_size(),
                                      "; it must be odd, 1 to ", kMaxBlurTaps));
  }
  options.kernel_size = static_cast<int>(blur.kernel_size());
  if (blur.sigma_min() != 0 || blur.sigma_max() != 0) {
    options.sigma_min = blur.sigma_min();
    options.sigma_max = blur.sigma_max();
    if (!(options.sigma_min > 0 && options.sigma_min <= options.sigma_max &&
          std::isfinite(options.sigma_max))) {
      return where.Invalid(absl::StrCat("sigma is ", options.sigma_min, " to ",
                                        options.sigma_max,
                                        "; it must rise above 0"));
    }
  }
  return MakeGaussianBlur(options);
}

OpOr Read(const Where& where, const RandomErasing& erasing, int channels) {
  RandomErasingOptions options;
  options.place = where.place;
  MR_RETURN_IF_ERROR(ReadProbability(where, erasing, options.p));
  if (erasing.scale_min() != 0 || erasing.scale_max() != 0) {
    options.scale_min = erasing.scale_min();
    options.scale_max = erasing.scale_max();
    MR_RETURN_IF_ERROR(CheckInterval(where, "scale", options.scale_min,
                                     options.scale_max, 0, 1));
  }
  if (erasing.ratio_min() != 0 || erasing.ratio_max() != 0) {
    options.ratio_min = erasing.ratio_min();
    options.ratio_max = erasing.ratio_max();
    MR_RETURN_IF_ERROR(CheckInterval(where, "ratio", options.ratio_min,
                                     options.ratio_max, 0.001, 1000));
  }
  if (erasing.value_size() > 1 && erasing.value_size() != channels) {
    return where.Invalid(absl::StrCat("has ", erasing.value_size(),
                                      " values; the image has ", channels,
                                      " channels"));
  }
  if (erasing.value_size() > 0 && erasing.random_value()) {
    return where.Invalid("has both value and random_value; give one of them");
  }
  for (uint32_t value : erasing.value()) {
    if (value > 255) {
      return where.Invalid(
          absl::StrCat("value is ", value, "; it must be 0 to 255"));
    }
    options.value.push_back(static_cast<uint8_t>(value));
  }
  options.random_value = erasing.random_value();
  return MakeRandomErasing(std::move(options));
}

}  // namespace

bool IsColor(const Transform& transform) {
  switch (transform.kind_case()) {
    case Transform::kColorJitter:
    case Transform::kGrayscale:
    case Transform::kGaussianBlur:
    case Transform::kRandomErasing:
      return true;
    default:
      return false;
  }
}

OpOr ReadColor(const PlacedTransform& placed, int channels) {
  const Transform& transform = *placed.transform;
  const uint32_t place = placed.place;
  switch (transform.kind_case()) {
    case Transform::kColorJitter:
      return Read({"color_jitter", place}, transform.color_jitter(), channels);
    case Transform::kGrayscale:
      return Read({"grayscale", place}, transform.grayscale(), channels);
    case Transform::kGaussianBlur:
      return Read({"gaussian_blur", place}, transform.gaussian_blur());
    case Transform::kRandomErasing:
      return Read({"random_erasing", place}, transform.random_erasing(),
                  channels);
    default:
      return absl::InternalError(
          absl::StrCat("transform ", place, " is no change of colour"));
  }
}

}  // namespace millrace
