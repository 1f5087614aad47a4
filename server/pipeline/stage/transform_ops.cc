#include "server/pipeline/stage/transform_ops.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/repeated_field.h"
#include "server/augment/auto_augment.h"
#include "server/augment/color_jitter.h"
#include "server/augment/gaussian_blur.h"
#include "server/augment/grayscale.h"
#include "server/augment/portable_math.h"
#include "server/augment/random_erasing.h"
#include "server/pipeline/stage/operator_transform.h"
#include "server/plan/served_field.h"
#include "server/plan/spec_limits.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::pipeline {
namespace {

using Kind = augment::GeometryOp::Kind;

// The plan accepts only fills that the operations support.
static_assert(plan::kMaxFillValues <= augment::FillColor::kMaxChannels);
static_assert(plan::kMaxBlurKernel <= augment::kMaxBlurTaps);
static_assert(plan::kMaxSpecSide <= augment::kMaxImageSide);
static_assert(plan::kMaxRawSide <= augment::kMaxImageSide);

bool IsMask(const ImageStageOptions& options) {
  return options.role == FieldRole::MASK;
}

// No value, one value, or one value for each channel.
augment::FillColor FillOf(const google::protobuf::RepeatedField<uint32_t>& fill,
                          const ImageStageOptions& options) {
  // A colour does not apply to classes.
  if (IsMask(options)) return augment::FillColor(options.mask_fill);
  if (fill.empty()) return augment::FillColor();
  uint8_t values[augment::FillColor::kMaxChannels] = {};
  for (int i = 0; i < fill.size(); ++i) {
    values[i] = static_cast<uint8_t>(fill[i]);
  }
  return augment::FillColor(values, fill.size());
}

template <typename M>
bool TakesNearest(const M& message, const ImageStageOptions& options) {
  return IsMask(options) || message.interpolation() == INTERPOLATION_NEAREST;
}

template <typename M>
void SetSize(const M& message, augment::GeometryOp& op) {
  op.size = {message.width(), message.height()};
}

template <typename M>
void SetResampling(const M& message, const ImageStageOptions& options,
                   augment::GeometryOp& op) {
  op.antialias = !message.no_antialias();
  op.nearest = TakesNearest(message, options);
}

// Sets the padding and its fill.
template <typename M>
void SetSurround(const M& message, const ImageStageOptions& options,
                 augment::GeometryOp& op) {
  const auto& padding = message.padding();  // none or four
  if (!padding.empty()) {
    op.padding = {padding[0], padding[1], padding[2], padding[3]};
  }
  switch (message.padding_mode()) {
    case PADDING_EDGE:
      op.surround = augment::Surround::kEdge;
      break;
    case PADDING_REFLECT:
      op.surround = augment::Surround::kReflect;
      break;
    case PADDING_SYMMETRIC:
      op.surround = augment::Surround::kSymmetric;
      break;
    default:
      op.surround = augment::Surround::kFill;
  }
  op.fill = FillOf(message.fill(), options);
}

// The common part of random_rotation and random_affine.
template <typename M>
augment::RandomAffineOptions TurnOptions(const M& message, uint32_t place,
                                         const ImageStageOptions& options) {
  augment::RandomAffineOptions o;
  o.place = place;
  o.degrees_min = message.degrees_min();
  o.degrees_max = message.degrees_max();
  o.probability = message.p();
  o.nearest = TakesNearest(message, options);
  o.fill = FillOf(message.fill(), options);
  return o;
}

// The common part of trivial_augment_wide and rand_augment.
template <typename M>
augment::AutoAugmentOptions AutoOptions(const M& message, uint32_t place,
                                        const ImageStageOptions& options) {
  augment::AutoAugmentOptions o;
  o.place = place;
  o.bins = static_cast<int>(message.num_magnitude_bins());
  o.probability = message.p();
  o.nearest = TakesNearest(message, options);
  o.fill = FillOf(message.fill(), options);
  return o;
}

// Absent: this change is left out.
std::optional<augment::ColorJitterOptions::Interval> Interval(bool written,
                                                              double low,
                                                              double high) {
  if (!written) return std::nullopt;
  return augment::ColorJitterOptions::Interval{low, high};
}

std::unique_ptr<const augment::PixelOp> Make(const ColorJitter& jitter,
                                             uint32_t place) {
  augment::ColorJitterOptions o;
  o.place = place;
  o.p = jitter.p();
  o.brightness =
      Interval(jitter.has_brightness_min() || jitter.has_brightness_max(),
               jitter.brightness_min(), jitter.brightness_max());
  o.contrast = Interval(jitter.has_contrast_min() || jitter.has_contrast_max(),
                        jitter.contrast_min(), jitter.contrast_max());
  o.saturation =
      Interval(jitter.has_saturation_min() || jitter.has_saturation_max(),
               jitter.saturation_min(), jitter.saturation_max());
  o.hue = Interval(jitter.hue_min() != 0 || jitter.hue_max() != 0,
                   jitter.hue_min(), jitter.hue_max());
  return augment::MakeColorJitter(o);
}

std::unique_ptr<const augment::PixelOp> Make(const RandomErasing& erasing,
                                             uint32_t place) {
  augment::RandomErasingOptions o;
  o.place = place;
  o.p = erasing.p();
  o.scale_min = erasing.scale_min();
  o.scale_max = erasing.scale_max();
  o.ratio_min = erasing.ratio_min();
  o.ratio_max = erasing.ratio_max();
  o.value.assign(erasing.value().begin(), erasing.value().end());
  o.random_value = erasing.random_value();
  return augment::MakeRandomErasing(std::move(o));
}

}  // namespace

std::optional<augment::GeometryOp> GeometryOf(
    const PlacedTransform& placed, const ImageStageOptions& options) {
  const Transform& t = *placed.transform;
  augment::GeometryOp op;
  op.place = placed.place;
  if (const plan::TransformKind* kind = plan::KindOf(t)) {
    op.name = kind->name().c_str();  // kinds are never destroyed
  }
  switch (t.kind_case()) {
    case Transform::kRandomResizedCrop: {
      const RandomResizedCrop& crop = t.random_resized_crop();
      op.kind = Kind::kRandomResizedCrop;
      if (crop.has_p()) op.probability = crop.p();  // default 1 is not written
      SetSize(crop, op);
      SetResampling(crop, options, op);
      op.distribution = {crop.scale_min(), crop.scale_max(),
                         augment::PortableLog(crop.ratio_min()),
                         augment::PortableLog(crop.ratio_max())};
      return op;
    }
    case Transform::kResize: {
      const Resize& resize = t.resize();
      op.kind =
          resize.short_side() == 0 ? Kind::kResize : Kind::kResizeShortSide;
      op.short_side = resize.short_side();
      SetSize(resize, op);
      SetResampling(resize, options, op);
      return op;
    }
    case Transform::kCenterCrop:
      op.kind = Kind::kCenterCrop;
      SetSize(t.center_crop(), op);
      op.fill = FillOf({}, options);
      return op;
    case Transform::kRandomCrop: {
      const RandomCrop& crop = t.random_crop();
      op.kind = Kind::kRandomCrop;
      op.probability = crop.p();
      op.pad_if_needed = crop.pad_if_needed();
      SetSize(crop, op);
      SetSurround(crop, options, op);
      return op;
    }
    case Transform::kPad:
      op.kind = Kind::kPad;
      SetSurround(t.pad(), options, op);
      return op;
    case Transform::kHorizontalFlip:
      op.kind = Kind::kHorizontalFlip;
      op.probability = t.horizontal_flip().p();
      return op;
    case Transform::kVerticalFlip:
      op.kind = Kind::kVerticalFlip;
      op.probability = t.vertical_flip().p();
      return op;
    default:
      return std::nullopt;
  }
}

std::optional<augment::RandomAffineOptions> AffineOf(
    const PlacedTransform& placed, const ImageStageOptions& options) {
  const Transform& t = *placed.transform;
  if (t.has_random_rotation()) {
    augment::RandomAffineOptions o =
        TurnOptions(t.random_rotation(), placed.place, options);
    o.rotation = true;
    return o;
  }
  if (!t.has_random_affine()) return std::nullopt;
  const RandomAffine& affine = t.random_affine();
  augment::RandomAffineOptions o = TurnOptions(affine, placed.place, options);
  o.translate_x = affine.translate_x();
  o.translate_y = affine.translate_y();
  o.scale_min = affine.scale_min();
  o.scale_max = affine.scale_max();
  o.shear_x_min = affine.shear_x_min();
  o.shear_x_max = affine.shear_x_max();
  o.shear_y_min = affine.shear_y_min();
  o.shear_y_max = affine.shear_y_max();
  return o;
}

absl::StatusOr<std::unique_ptr<const augment::PixelOp>> MakePixelOp(
    const PlacedTransform& placed, int channels,
    const ImageStageOptions& options) {
  const Transform& t = *placed.transform;
  const uint32_t place = placed.place;
  if (const auto affine = AffineOf(placed, options)) {
    return augment::MakeRandomAffine(*affine);
  }
  switch (t.kind_case()) {
    case Transform::kColorJitter:
      return Make(t.color_jitter(), place);
    case Transform::kGrayscale:
      return augment::MakeGrayscale({.place = place, .p = t.grayscale().p()});
    case Transform::kGaussianBlur: {
      const GaussianBlur& blur = t.gaussian_blur();
      return augment::MakeGaussianBlur(
          {.place = place,
           .p = blur.p(),
           .kernel_size = static_cast<int>(blur.kernel_size()),
           .sigma_min = blur.sigma_min(),
           .sigma_max = blur.sigma_max()});
    }
    case Transform::kRandomErasing:
      return Make(t.random_erasing(), place);
    case Transform::kTrivialAugmentWide:
      return augment::MakeAutoAugment(
          AutoOptions(t.trivial_augment_wide(), place, options));
    case Transform::kRandAugment: {
      augment::AutoAugmentOptions o =
          AutoOptions(t.rand_augment(), place, options);
      o.wide = false;
      o.num_ops = static_cast<int>(t.rand_augment().num_ops());
      o.magnitude = static_cast<int>(t.rand_augment().magnitude());
      return augment::MakeAutoAugment(o);
    }
    case Transform::kCustom:
      return MakeOperatorPixelOp(LoadedTransform(options.operators, t.custom()),
                                 t.custom(), place, channels);
    default:
      return absl::UnimplementedError(
          absl::StrCat(plan::TransformName(t), " (transform ", place,
                       "): this version does not support it"));
  }
}

}  // namespace millrace::pipeline
