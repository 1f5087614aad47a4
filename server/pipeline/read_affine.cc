#include "server/pipeline/read_affine.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/pipeline/read_geometry.h"

namespace millrace {
namespace {

absl::Status Invalid(absl::string_view name, uint32_t place,
                     absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " (transform ", place, "): ", what));
}

// `interpolation` absent: the nearest pixel.
template <typename M>
absl::StatusOr<bool> IsNearest(absl::string_view name, uint32_t place,
                               const M& message,
                               const ImageStageOptions& options) {
  if (options.role == FieldRole::MASK || !message.has_interpolation() ||
      message.interpolation() == INTERPOLATION_NEAREST) {
    return true;
  }
  if (message.interpolation() == INTERPOLATION_BILINEAR) return false;
  return absl::UnimplementedError(
      absl::StrCat(name, " (transform ", place, "): interpolation ",
                   static_cast<int>(message.interpolation()),
                   " is not built in this version"));
}

absl::Status CheckRange(absl::string_view name, uint32_t place,
                        absl::string_view what, double low, double high,
                        double least, double most) {
  if (low >= least && low <= high && high <= most) return absl::OkStatus();
  return Invalid(name, place,
                 absl::StrCat(what, " is ", low, " to ", high,
                              "; it must rise within ", least, " to ", most));
}

template <typename M>
absl::StatusOr<double> Probability(absl::string_view name, uint32_t place,
                                   const M& message) {
  const double p = message.has_p() ? message.p() : 1.0;
  if (p >= 0 && p <= 1) return p;
  return Invalid(name, place, absl::StrCat("p is ", p, "; it must be 0 to 1"));
}

constexpr double kMaxDegrees = 1e6;

absl::StatusOr<RandomAffineOptions> Read(const RandomRotation& rotation,
                                         uint32_t place, int channels,
                                         const ImageStageOptions& options) {
  constexpr char kName[] = "random_rotation";
  RandomAffineOptions o;
  o.place = place;
  o.rotation = true;
  o.degrees_min = rotation.degrees_min();
  o.degrees_max = rotation.degrees_max();
  MR_RETURN_IF_ERROR(CheckRange(kName, place, "degrees", o.degrees_min,
                                o.degrees_max, -kMaxDegrees, kMaxDegrees));
  MR_ASSIGN_OR_RETURN(o.probability, Probability(kName, place, rotation));
  MR_ASSIGN_OR_RETURN(o.nearest, IsNearest(kName, place, rotation, options));
  MR_ASSIGN_OR_RETURN(
      o.fill, ReadFill(kName, place, rotation.fill(), channels, options));
  return o;
}

absl::StatusOr<RandomAffineOptions> Read(const RandomAffine& affine,
                                         uint32_t place, int channels,
                                         const ImageStageOptions& options) {
  constexpr char kName[] = "random_affine";
  RandomAffineOptions o;
  o.place = place;
  o.degrees_min = affine.degrees_min();
  o.degrees_max = affine.degrees_max();
  MR_RETURN_IF_ERROR(CheckRange(kName, place, "degrees", o.degrees_min,
                                o.degrees_max, -kMaxDegrees, kMaxDegrees));
  o.translate_x = affine.translate_x();
  o.translate_y = affine.translate_y();
  for (double share : {o.translate_x, o.translate_y}) {
    if (!(share >= 0 && share <= 1)) {
      return Invalid(kName, place,
                     absl::StrCat("translate is ", share,
                                  "; it is a share of the side, 0 to 1"));
    }
  }
  if (affine.scale_min() != 0 || affine.scale_max() != 0) {
    o.scale_min = affine.scale_min();
    o.scale_max = affine.scale_max();
    if (!(o.scale_min > 0 && o.scale_min <= o.scale_max &&
          std::isfinite(o.scale_max))) {
      return Invalid(kName, place,
                     absl::StrCat("scale is ", o.scale_min, " to ", o.scale_max,
                                  "; it must rise, above 0"));
    }
  }
  constexpr double kMaxShear = 89.9;  // at 90 degrees nothing is left
  o.shear_x_min = affine.shear_x_min();
  o.shear_x_max = affine.shear_x_max();
  MR_RETURN_IF_ERROR(CheckRange(kName, place, "shear_x", o.shear_x_min,
                                o.shear_x_max, -kMaxShear, kMaxShear));
  o.shear_y_min = affine.shear_y_min();
  o.shear_y_max = affine.shear_y_max();
  MR_RETURN_IF_ERROR(CheckRange(kName, place, "shear_y", o.shear_y_min,
                                o.shear_y_max, -kMaxShear, kMaxShear));
  MR_ASSIGN_OR_RETURN(o.probability, Probability(kName, place, affine));
  MR_ASSIGN_OR_RETURN(o.nearest, IsNearest(kName, place, affine, options));
  MR_ASSIGN_OR_RETURN(o.fill,
                      ReadFill(kName, place, affine.fill(), channels, options));
  return o;
}

// What TrivialAugmentWide and RandAugment have in common.
template <typename M>
absl::StatusOr<AutoAugmentOptions> ReadCommon(
    absl::string_view name, const M& message, uint32_t place, int channels,
    const ImageStageOptions& options) {
  if (options.role != FieldRole::IMAGE) {
    return Invalid(name, place,
                   "masks and boxes cannot follow it; take random_affine and "
                   "color_jitter instead");
  }
  if (channels != 1 && channels != 3) {
    return Invalid(
        name, place,
        absl::StrCat("works on 1 or 3 channels; the image has ", channels));
  }
  AutoAugmentOptions o;
  o.place = place;
  if (message.num_magnitude_bins() != 0) {
    constexpr uint32_t kMaxBins = 1 << 20;
    if (message.num_magnitude_bins() < 2 ||
        message.num_magnitude_bins() > kMaxBins) {
      return Invalid(
          name, place,
          absl::StrCat("num_magnitude_bins is ", message.num_magnitude_bins(),
                       "; it must be 2 to ", kMaxBins));
    }
    o.bins = static_cast<int>(message.num_magnitude_bins());
  }
  MR_ASSIGN_OR_RETURN(o.probability, Probability(name, place, message));
  MR_ASSIGN_OR_RETURN(o.nearest, IsNearest(name, place, message, options));
  MR_ASSIGN_OR_RETURN(o.fill,
                      ReadFill(name, place, message.fill(), channels, options));
  return o;
}

}  // namespace

bool IsAffine(const Transform& transform) {
  return transform.has_random_rotation() || transform.has_random_affine();
}

absl::StatusOr<RandomAffineOptions> ReadAffine(
    const PlacedTransform& placed, int channels,
    const ImageStageOptions& options) {
  return placed.transform->has_random_rotation()
             ? Read(placed.transform->random_rotation(), placed.place, channels,
                    options)
             : Read(placed.transform->random_affine(), placed.place, channels,
                    options);
}

bool IsAutoAugment(const Transform& transform) {
  return transform.has_trivial_augment_wide() || transform.has_rand_augment();
}

absl::StatusOr<AutoAugmentOptions> ReadAutoAugment(
    const PlacedTransform& placed, int channels,
    const ImageStageOptions& options) {
  const Transform& t = *placed.transform;
  if (t.has_trivial_augment_wide()) {
    return ReadCommon("trivial_augment_wide", t.trivial_augment_wide(),
                      placed.place, channels, options);
  }
  constexpr char kName[] = "rand_augment";
  const RandAugment& augment = t.rand_augment();
  MR_ASSIGN_OR_RETURN(
      AutoAugmentOptions o,
      ReadCommon(kName, augment, placed.place, channels, options));
  o.wide = false;
  constexpr uint32_t kMaxOps = 100;
  const uint32_t num_ops = augment.has_num_ops() ? augment.num_ops() : 2;
  if (num_ops > kMaxOps) {
    return Invalid(
        kName, placed.place,
        absl::StrCat("num_ops is ", num_ops, "; it must be 0 to ", kMaxOps));
  }
  o.num_ops = static_cast<int>(num_ops);
  const uint32_t magnitude = augment.has_magnitude() ? augment.magnitude() : 9;
  if (magnitude >= static_cast<uint32_t>(o.bins)) {
    return Invalid(
        kName, placed.place,
        absl::StrCat("magnitude is ", magnitude,
                     "; it must be below num_magnitude_bins, ", o.bins));
  }
  o.magnitude = static_cast<int>(magnitude);
  return o;
}

}  // namespace millrace
