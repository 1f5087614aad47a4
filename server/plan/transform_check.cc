#include "server/plan/transform_check.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/count_text.h"
#include "proto/dtype.h"
#include "server/plan/sample_shape.h"
#include "server/plan/spec_limits.h"

namespace millrace {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The bounds of a range and what they are called.
struct Range {
  absl::string_view name;  // "scale": fields scale_min and scale_max
  double min;
  double max;
};

class ParameterCheck {
 public:
  std::vector<TransformProblem> Run(const Transform& transform) {
    switch (transform.kind_case()) {
      case Transform::kDecodeImage:
      case Transform::KIND_NOT_SET:
        break;
      case Transform::kRandomResizedCrop:
        Check(transform.random_resized_crop());
        break;
      case Transform::kResize:
        Check(transform.resize());
        break;
      case Transform::kCenterCrop:
        Sides(transform.center_crop());
        break;
      case Transform::kHorizontalFlip:
        Probability(transform.horizontal_flip());
        break;
      case Transform::kNormalize:
        Check(transform.normalize());
        break;
      case Transform::kRandomCrop:
        Check(transform.random_crop());
        break;
      case Transform::kPad:
        Check(transform.pad());
        break;
      case Transform::kVerticalFlip:
        Probability(transform.vertical_flip());
        break;
      case Transform::kColorJitter:
        Check(transform.color_jitter());
        break;
      case Transform::kGrayscale:
        Probability(transform.grayscale());
        break;
      case Transform::kGaussianBlur:
        Check(transform.gaussian_blur());
        break;
      case Transform::kRandomRotation:
        Check(transform.random_rotation());
        break;
      case Transform::kRandomAffine:
        Check(transform.random_affine());
        break;
      case Transform::kCustom:
        Check(transform.custom());
        break;
      case Transform::kRandomErasing:
        Check(transform.random_erasing());
        break;
      case Transform::kToDtype:
        Check(transform.to_dtype());
        break;
      case Transform::kTrivialAugmentWide:
        Check(transform.trivial_augment_wide());
        break;
      case Transform::kRandAugment:
        Check(transform.rand_augment());
        break;
      case Transform::kMixUp:
        Mixing(transform.mix_up());
        break;
      case Transform::kCutMix:
        Mixing(transform.cut_mix());
        break;
    }
    return std::move(problems_);
  }

 private:
  void Invalid(absl::string_view field, absl::string_view text,
               int index = -1) {
    problems_.push_back(
        {std::string(field), index, absl::InvalidArgumentError(text)});
  }

  template <typename M>
  void Sides(const M& message) {
    Side("height", message.height());
    Side("width", message.width());
  }

  void Side(absl::string_view name, uint32_t value) {
    if (value == 0 || value > kMaxSpecSide) {
      Invalid(name, absl::StrCat(name, " is ", value, ": it is 1 .. ",
                                 kMaxSpecSide, " pixels"));
    }
  }

  template <typename M>
  void Probability(const M& message) {
    if (message.has_p() && !(message.p() >= 0 && message.p() <= 1)) {
      Invalid("p", absl::StrCat("p is ", message.p(), ": it is 0 .. 1"));
    }
  }

  // lowest <= min <= max <= highest; `lowest` itself is not allowed when
  // `above`. `otherwise`: what to write instead of bounds.
  void CheckRange(const Range& range, double lowest, double highest,
                  absl::string_view otherwise, bool above = false) {
    const bool min_fits = above ? range.min > lowest : range.min >= lowest;
    if (min_fits && range.min <= range.max && range.max <= highest) return;
    Invalid(absl::StrCat(range.name, min_fits ? "_max" : "_min"),
            absl::StrCat(range.name, " ", range.min, " .. ", range.max,
                         ": write ", lowest, above ? " < " : " <= ", range.name,
                         "_min <= ", range.name, "_max <= ", highest,
                         otherwise.empty() ? "" : ", or ", otherwise));
  }

  static bool IsLeftOut(const Range& range) {
    return range.min == 0 && range.max == 0;
  }

  void Padding(const google::protobuf::RepeatedField<uint32_t>& padding,
               bool may_be_empty) {
    const int n = padding.size();
    if (!(n == 1 || n == 2 || n == 4 || (n == 0 && may_be_empty))) {
      Invalid("padding",
              absl::StrCat("padding has ", n,
                           " values: write one for all sides, two for "
                           "left/right and top/bottom, or four for left, top, "
                           "right, bottom"));
    }
    for (int i = 0; i < n; ++i) {
      if (padding[i] > kMaxSpecSide) {
        Invalid("padding",
                absl::StrCat("padding ", padding[i], ": at most ", kMaxSpecSide,
                             " pixels"),
                i);
      }
    }
  }

  // Pixel values.
  void Levels(absl::string_view name,
              const google::protobuf::RepeatedField<uint32_t>& values) {
    // Whether they are as many as the channels is seen with the field.
    if (values.size() > kMaxFillValues) {
      Invalid(name, absl::StrCat(name, " has ", values.size(),
                                 " values: write one, or one a channel for up "
                                 "to ",
                                 kMaxFillValues, " channels"));
    }
    for (int i = 0; i < values.size(); ++i) {
      if (values[i] > 255) {
        Invalid(name,
                absl::StrCat(name, " ", values[i],
                             ": it is 0 .. 255, in units of the stored pixels"),
                i);
      }
    }
  }

  // `fill` and `padding_mode` of what pads.
  template <typename M>
  void Filling(const M& message, bool pads) {
    Levels("fill", message.fill());
    if (message.padding_mode() != PADDING_CONSTANT && !pads) {
      Invalid("padding_mode",
              "padding_mode without padding: write padding, or leave "
              "padding_mode out");
    } else if (message.padding_mode() != PADDING_CONSTANT &&
               message.fill_size() > 0) {
      Invalid("fill",
              "fill only means something with padding_mode: PADDING_CONSTANT: "
              "leave one of the two out");
    } else if (!pads && message.fill_size() > 0) {
      Invalid("fill", "fill without padding: write padding, or leave it out");
    }
  }

  void Check(const RandomResizedCrop& crop) {
    Sides(crop);
    if (const Range scale{"scale", crop.scale_min(), crop.scale_max()};
        !IsLeftOut(scale)) {
      CheckRange(scale, 0, 1, "neither for 0.08 .. 1", /*above=*/true);
    }
    if (const Range ratio{"ratio", crop.ratio_min(), crop.ratio_max()};
        !IsLeftOut(ratio)) {
      CheckRange(ratio, 0.01, 100, "neither for 3/4 .. 4/3");
    }
    Probability(crop);
  }

  void Check(const Resize& resize) {
    const bool exact = resize.height() != 0 || resize.width() != 0;
    if (resize.short_side() != 0 && exact) {
      Invalid("short_side", "either short_side, or height and width, not both");
    } else if (exact) {
      Sides(resize);
    } else {
      Side("short_side", resize.short_side());
    }
  }

  void Check(const RandomCrop& crop) {
    Sides(crop);
    Padding(crop.padding(), /*may_be_empty=*/true);
    Filling(crop, crop.padding_size() > 0 || crop.pad_if_needed());
    Probability(crop);
  }

  void Check(const Pad& pad) {
    Padding(pad.padding(), /*may_be_empty=*/false);
    Filling(pad, /*pads=*/true);
  }

  void Check(const ColorJitter& jitter) {
    bool any = false;
    const auto factor = [&](const Range& range) {
      if (IsLeftOut(range)) return;
      any = true;
      CheckRange(range, 0, kMaxFactor, "neither to leave it as it is");
    };
    factor({"brightness", jitter.brightness_min(), jitter.brightness_max()});
    factor({"contrast", jitter.contrast_min(), jitter.contrast_max()});
    factor({"saturation", jitter.saturation_min(), jitter.saturation_max()});
    if (const Range hue{"hue", jitter.hue_min(), jitter.hue_max()};
        !IsLeftOut(hue)) {
      any = true;
      CheckRange(hue, -0.5, 0.5, "neither to leave it as it is");
    }
    if (!any) {
      Invalid(
          "",
          "color_jitter without a range changes nothing: write "
          "brightness_min and brightness_max, or those of contrast, "
          "saturation or hue (torchvision's brightness=b is 1 - b .. 1 + b, "
          "its hue=h is -h .. h)");
    }
    Probability(jitter);
  }

  void Check(const GaussianBlur& blur) {
    const uint32_t size = blur.kernel_size();
    if (size % 2 == 0 || size > kMaxBlurKernel) {
      Invalid("kernel_size",
              absl::StrCat("kernel_size is ", size,
                           ": it is an odd number of pixels, 1 .. ",
                           kMaxBlurKernel));
    }
    if (const Range sigma{"sigma", blur.sigma_min(), blur.sigma_max()};
        !IsLeftOut(sigma)) {
      CheckRange(sigma, 0, 1000, "neither for 0.1 .. 2", /*above=*/true);
    }
    Probability(blur);
  }

  void Check(const RandomRotation& rotation) {
    const Range degrees{"degrees", rotation.degrees_min(),
                        rotation.degrees_max()};
    if (IsLeftOut(degrees)) {
      Invalid("degrees_max",
              "random_rotation by 0 degrees turns nothing: write degrees_min "
              "and degrees_max (torchvision's degrees=d is -d .. d)");
    } else {
      CheckRange(degrees, -360, 360, "");
    }
    Levels("fill", rotation.fill());
    Probability(rotation);
  }

  void Check(const RandomAffine& affine) {
    const Range degrees{"degrees", affine.degrees_min(), affine.degrees_max()};
    const Range scale{"scale", affine.scale_min(), affine.scale_max()};
    const Range shear_x{"shear_x", affine.shear_x_min(), affine.shear_x_max()};
    const Range shear_y{"shear_y", affine.shear_y_min(), affine.shear_y_max()};
    CheckRange(degrees, -360, 360, "");
    for (const auto& [name, value] :
         {std::pair{"translate_x", affine.translate_x()},
          std::pair{"translate_y", affine.translate_y()}}) {
      if (!(value >= 0 && value <= 1)) {
        Invalid(name, absl::StrCat(name, " is ", value,
                                   ": it is the largest shift as a share of "
                                   "the side, 0 .. 1"));
      }
    }
    if (!IsLeftOut(scale)) {
      CheckRange(scale, 0, kMaxFactor, "neither for 1", /*above=*/true);
    }
    // At 90 degrees nothing is left of the image.
    CheckRange(shear_x, -89, 89, "");
    CheckRange(shear_y, -89, 89, "");
    const bool scales =
        !IsLeftOut(scale) && !(scale.min == 1 && scale.max == 1);
    if (IsLeftOut(degrees) && affine.translate_x() == 0 &&
        affine.translate_y() == 0 && !scales && IsLeftOut(shear_x) &&
        IsLeftOut(shear_y)) {
      Invalid("",
              "random_affine without a range changes nothing: write degrees, "
              "translate, scale or shear");
    }
    Levels("fill", affine.fill());
    Probability(affine);
  }

  void Check(const RandomErasing& erasing) {
    Probability(erasing);
    if (const Range scale{"scale", erasing.scale_min(), erasing.scale_max()};
        !IsLeftOut(scale)) {
      CheckRange(scale, 0, 1, "neither for 0.02 .. 0.33", /*above=*/true);
    }
    if (const Range ratio{"ratio", erasing.ratio_min(), erasing.ratio_max()};
        !IsLeftOut(ratio)) {
      CheckRange(ratio, 0.01, 100, "neither for 0.3 .. 3.3");
    }
    Levels("value", erasing.value());
    if (erasing.random_value() && erasing.value_size() > 0) {
      Invalid("random_value", "either value, or random_value, not both");
    }
  }

  // 0: the default.
  void MagnitudeBins(uint32_t bins) {
    if (bins == 1 || bins > kMaxMagnitudeBins) {
      Invalid("num_magnitude_bins",
              absl::StrCat("num_magnitude_bins is ", bins, ": it is 2 .. ",
                           kMaxMagnitudeBins, ", or left out for 31"));
    }
  }

  void Check(const TrivialAugmentWide& augment) {
    MagnitudeBins(augment.num_magnitude_bins());
    Levels("fill", augment.fill());
    Probability(augment);
  }

  void Check(const RandAugment& augment) {
    if (augment.has_num_ops() &&
        (augment.num_ops() == 0 || augment.num_ops() > kMaxRandAugmentOps)) {
      Invalid("num_ops",
              absl::StrCat("num_ops is ", augment.num_ops(), ": it is 1 .. ",
                           kMaxRandAugmentOps, ", or left out for 2"));
    }
    MagnitudeBins(augment.num_magnitude_bins());
    const uint32_t bins =
        augment.num_magnitude_bins() == 0 ? 31 : augment.num_magnitude_bins();
    const uint32_t magnitude =
        augment.has_magnitude() ? augment.magnitude() : 9;
    if (magnitude >= bins) {
      Invalid("magnitude", absl::StrCat("magnitude is ", magnitude,
                                        ": it is one of num_magnitude_bins = ",
                                        bins, " strengths, 0 .. ", bins - 1));
    }
    Levels("fill", augment.fill());
    Probability(augment);
  }

  template <typename M>
  void Mixing(const M& mixing) {
    if (!(mixing.alpha() >= 0 && mixing.alpha() <= 1000)) {
      Invalid("alpha", absl::StrCat("alpha is ", mixing.alpha(),
                                    ": it is above 0 and at most 1000, or left "
                                    "out for 1"));
    }
    Probability(mixing);
    for (int i = 0; i < mixing.labels_size(); ++i) {
      const auto& fields = mixing.fields();
      if (std::find(fields.begin(), fields.end(), mixing.labels(i)) !=
          fields.end()) {
        Invalid("labels",
                absl::StrCat("field ", mixing.labels(i),
                             " is both an image and a label: name it once"),
                i);
      }
    }
  }

  void Check(const Normalize& normalize) {
    if (normalize.mean_size() == 0) {
      Invalid("",
              "normalize without a mean: write one mean and one stddev a "
              "channel");
    }
    if (normalize.mean_size() != normalize.stddev_size()) {
      Invalid("",
              absl::StrCat("normalize has ",
                           CountText(normalize.mean_size(), "mean"), " and ",
                           CountText(normalize.stddev_size(), "stddev"),
                           ": write one of each a channel"));
    }
    for (int i = 0; i < normalize.mean_size(); ++i) {
      if (normalize.mean(i) > 1) Scale("mean", normalize.mean(i), 1, i);
    }
    for (int i = 0; i < normalize.stddev_size(); ++i) {
      if (!(normalize.stddev(i) > 0)) {
        Invalid("stddev",
                absl::StrCat("stddev ", normalize.stddev(i),
                             ": it must be above 0"),
                i);
      } else if (normalize.stddev(i) > kMaxStddev) {
        Scale("stddev", normalize.stddev(i), kMaxStddev, i);
      }
    }
  }

  // Statistics of pixels of 0 .. 255, as other programs print them. A stddev
  // somewhat above 1 is a scale of one's own.
  static constexpr int kMaxStddev = 5;
  void Scale(const char* name, double value, int most, int i) {
    Invalid(
        name,
        absl::StrCat(name, " ", value, " lies above ", most,
                     ": normalize divides pixels by 255 "
                     "first, so mean and stddev are on the scale of 0 .. 1",
                     value <= 255
                         ? absl::StrCat("; for statistics of 0 .. 255 "
                                        "divide them by 255, here ",
                                        absl::StrFormat("%.4g", value / 255))
                         : ""),
        i);
  }

  void Check(const ToDtype& to) {
    if (to.dtype() == DTYPE_UNSPECIFIED) {
      Invalid("dtype",
              "to_dtype without a dtype: write one, such as DTYPE_FLOAT32");
    } else if (to.scale() && !IsFloat(to.dtype())) {
      Invalid("scale", absl::StrCat("scale divides by 255, which ",
                                    DTypeName(to.dtype()),
                                    " cannot hold: take a floating-point type, "
                                    "or leave scale out"));
    }
  }

  static bool IsFloat(DType dtype) {
    return dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16 ||
           dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64;
  }

  void Check(const CustomTransform& custom) {
    if (custom.name().empty()) {
      Invalid("name",
              "a custom transform without a name: write that of an operator "
              "which the server has loaded");
    }
    if (custom.config().size() > kMaxConfigBytes) {
      Invalid("config", absl::StrCat("config of ", custom.config().size(),
                                     " bytes: at most ", kMaxConfigBytes));
    }
    const std::string& hash = custom.library_hash();
    if (!hash.empty() &&
        (hash.size() != 32 ||
         hash.find_first_not_of("0123456789abcdef") != std::string::npos)) {
      Invalid("library_hash",
              "library_hash is 32 hexadecimal digits: leave it out, the server "
              "writes it");
    }
    if (custom.result_dtype() == DTYPE_UNSPECIFIED
            ? custom.result_shape_size() > 0
            : !ShapeIsSane(custom.result_dtype(), custom.result_shape())) {
      Invalid("result_shape",
              "result_dtype and result_shape are those of a tensor of fixed "
              "size: leave both out, the server writes them");
    }
    Probability(custom);
  }

  std::vector<TransformProblem> problems_;
};

}  // namespace

std::vector<TransformProblem> FindTransformProblems(
    const Transform& transform) {
  return ParameterCheck().Run(transform);
}

}  // namespace millrace
