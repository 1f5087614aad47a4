#include "server/plan/transform_defaults.h"

namespace millrace {
namespace {

template <typename M>
void Fields(M& message) {
  if (message.fields().empty()) message.add_fields("image");
}

template <typename M>
void Probability(M& message, double p) {
  if (!message.has_p()) message.set_p(p);
}

template <typename M>
void Fill(M& message) {
  if (message.fill_size() == 0) message.add_fill(0);
}

template <typename M>
void Nearest(M& message) {
  if (!message.has_interpolation()) {
    message.set_interpolation(INTERPOLATION_NEAREST);
  }
}

template <typename M>
void Scale(M& message, double min, double max) {
  if (message.scale_min() != 0 || message.scale_max() != 0) return;
  message.set_scale_min(min);
  message.set_scale_max(max);
}

template <typename M>
void Ratio(M& message, double min, double max) {
  if (message.ratio_min() != 0 || message.ratio_max() != 0) return;
  message.set_ratio_min(min);
  message.set_ratio_max(max);
}

// Left, top, right, bottom.
template <typename M>
void Padding(M& message) {
  auto& padding = *message.mutable_padding();
  const auto add = [&](int n, int from) {
    for (int i = 0; i < n; ++i) padding.Add(uint32_t{padding[from + i]});
  };
  if (padding.size() == 1) add(1, 0);
  if (padding.size() == 2) add(2, 0);
}

template <typename M>
void Mixing(M& message) {
  Fields(message);
  if (message.labels().empty()) message.add_labels("label");
  if (message.alpha() == 0) message.set_alpha(1);
  Probability(message, 1);
}

}  // namespace

void WriteDefaults(Transform& transform) {
  switch (transform.kind_case()) {
    case Transform::kDecodeImage:
      if (transform.decode_image().field().empty()) {
        transform.mutable_decode_image()->set_field("image");
      }
      return;
    case Transform::kRandomResizedCrop: {
      RandomResizedCrop& crop = *transform.mutable_random_resized_crop();
      Fields(crop);
      Scale(crop, 0.08, 1.0);
      Ratio(crop, 3.0 / 4.0, 4.0 / 3.0);
      // Version 1 began without p.
      if (crop.has_p() && crop.p() == 1) crop.clear_p();
      return;
    }
    case Transform::kResize:
      return Fields(*transform.mutable_resize());
    case Transform::kCenterCrop:
      return Fields(*transform.mutable_center_crop());
    case Transform::kHorizontalFlip:
      Fields(*transform.mutable_horizontal_flip());
      return Probability(*transform.mutable_horizontal_flip(), 0.5);
    case Transform::kNormalize:
      return Fields(*transform.mutable_normalize());
    case Transform::kRandomCrop: {
      RandomCrop& crop = *transform.mutable_random_crop();
      Fields(crop);
      Padding(crop);
      if ((crop.padding_size() > 0 || crop.pad_if_needed()) &&
          crop.padding_mode() == PADDING_CONSTANT) {
        Fill(crop);
      }
      return Probability(crop, 1);
    }
    case Transform::kPad: {
      Pad& pad = *transform.mutable_pad();
      Fields(pad);
      Padding(pad);
      if (pad.padding_mode() == PADDING_CONSTANT) Fill(pad);
      return;
    }
    case Transform::kVerticalFlip:
      Fields(*transform.mutable_vertical_flip());
      return Probability(*transform.mutable_vertical_flip(), 0.5);
    case Transform::kColorJitter:
      Fields(*transform.mutable_color_jitter());
      return Probability(*transform.mutable_color_jitter(), 1);
    case Transform::kGrayscale:
      Fields(*transform.mutable_grayscale());
      return Probability(*transform.mutable_grayscale(), 1);
    case Transform::kGaussianBlur: {
      GaussianBlur& blur = *transform.mutable_gaussian_blur();
      Fields(blur);
      if (blur.sigma_min() == 0 && blur.sigma_max() == 0) {
        blur.set_sigma_min(0.1);
        blur.set_sigma_max(2);
      }
      return Probability(blur, 1);
    }
    case Transform::kRandomRotation: {
      RandomRotation& rotation = *transform.mutable_random_rotation();
      Fields(rotation);
      Nearest(rotation);
      Fill(rotation);
      return Probability(rotation, 1);
    }
    case Transform::kRandomAffine: {
      RandomAffine& affine = *transform.mutable_random_affine();
      Fields(affine);
      Scale(affine, 1, 1);
      Nearest(affine);
      Fill(affine);
      return Probability(affine, 1);
    }
    case Transform::kCustom:
      Fields(*transform.mutable_custom());
      return Probability(*transform.mutable_custom(), 1);
    case Transform::kRandomErasing: {
      RandomErasing& erasing = *transform.mutable_random_erasing();
      Fields(erasing);
      Probability(erasing, 0.5);
      Scale(erasing, 0.02, 0.33);
      Ratio(erasing, 0.3, 3.3);
      if (!erasing.random_value() && erasing.value_size() == 0) {
        erasing.add_value(0);
      }
      return;
    }
    case Transform::kToDtype:
      return Fields(*transform.mutable_to_dtype());
    case Transform::kTrivialAugmentWide: {
      TrivialAugmentWide& augment = *transform.mutable_trivial_augment_wide();
      Fields(augment);
      if (augment.num_magnitude_bins() == 0) augment.set_num_magnitude_bins(31);
      Nearest(augment);
      Fill(augment);
      return Probability(augment, 1);
    }
    case Transform::kRandAugment: {
      RandAugment& augment = *transform.mutable_rand_augment();
      Fields(augment);
      if (!augment.has_num_ops()) augment.set_num_ops(2);
      if (!augment.has_magnitude()) augment.set_magnitude(9);
      if (augment.num_magnitude_bins() == 0) augment.set_num_magnitude_bins(31);
      Nearest(augment);
      Fill(augment);
      return Probability(augment, 1);
    }
    case Transform::kMixUp:
      return Mixing(*transform.mutable_mix_up());
    case Transform::kCutMix:
      return Mixing(*transform.mutable_cut_mix());
    case Transform::KIND_NOT_SET:
      return;
  }
}

}  // namespace millrace
