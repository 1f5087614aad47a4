#include "server/augment/auto_augment.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/augment/color_functions.h"
#include "server/augment/portable_math.h"
#include "server/augment/random.h"
#include "server/augment/random_affine.h"

namespace millrace::augment {
namespace {

// In torchvision's order, which the draws index.
enum class Operation {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
};

struct Entry {
  const char* name;
  bool has_strength;
  bool has_sign;
};

constexpr Entry kEntries[] = {
    {"Identity", false, false},     {"ShearX", true, true},
    {"ShearY", true, true},         {"TranslateX", true, true},
    {"TranslateY", true, true},     {"Rotate", true, true},
    {"Brightness", true, true},     {"Color", true, true},
    {"Contrast", true, true},       {"Sharpness", true, true},
    {"Posterize", true, false},     {"Solarize", true, false},
    {"AutoContrast", false, false}, {"Equalize", false, false},
};
constexpr uint64_t kOperations = std::size(kEntries);

class AutoAugmentOp final : public PixelOp {
 public:
  explicit AutoAugmentOp(const AutoAugmentOptions& options)
      : options_(options) {
    for (int c = 0; c < options.fill.count(); ++c) {
      fill_given_ |= options.fill.of(c) != 0;
    }
  }

  int64_t ScratchBytes(Size size, int channels) const override {
    return std::max(WarpScratchBytes(size, channels),
                    SharpnessScratchBytes(size, channels));
  }

  absl::Status Apply(ImageSpan image, const OpContext& context) const override {
    CounterRandom random(context.sample_key, options_.place);
    if (options_.probability < 1.0 &&
        !(random.Uniform() < options_.probability)) {
      if (context.log != nullptr) {
        context.log->Add(options_.place, "not applied");
      }
      return absl::OkStatus();
    }
    std::string drawn;
    for (int i = 0; i < options_.num_ops; ++i) {
      const uint64_t which = random.Below(kOperations);
      const Operation operation = static_cast<Operation>(which);
      const Entry& entry = kEntries[which];
      double strength = 0;
      if (entry.has_strength) {
        const int bin = options_.wide
                            ? static_cast<int>(random.Below(options_.bins))
                            : options_.magnitude;
        strength = Strength(operation, bin, image);
        if (entry.has_sign && random.Uniform() <= 0.5) strength = -strength;
      }
      if (context.log != nullptr) {
        absl::StrAppend(&drawn, drawn.empty() ? "" : ", ", entry.name);
        if (entry.has_strength) absl::StrAppend(&drawn, " ", strength);
      }
      MR_RETURN_IF_ERROR(Run(operation, strength, image, *context.scratch));
    }
    if (context.log != nullptr) {
      context.log->Add(options_.place, std::move(drawn));
    }
    return absl::OkStatus();
  }

 private:
  double Strength(Operation operation, int bin, const ImageSpan& image) const {
    const bool wide = options_.wide;
    const auto up_to = [&](double max) {
      return max * bin / (options_.bins - 1);
    };
    const auto shift = [&](int64_t side) {
      const double max =
          wide ? 32.0 : 150.0 / 331.0 * static_cast<double>(side);
      return static_cast<double>(static_cast<int64_t>(up_to(max)));
    };
    switch (operation) {
      case Operation::kShearX:
      case Operation::kShearY:
        return up_to(wide ? 0.99 : 0.3);
      case Operation::kTranslateX:
        return shift(image.width);
      case Operation::kTranslateY:
        return shift(image.height);
      case Operation::kRotate:
        return up_to(wide ? 135.0 : 30.0);
      case Operation::kBrightness:
      case Operation::kColor:
      case Operation::kContrast:
      case Operation::kSharpness:
        return up_to(wide ? 0.99 : 0.9);
      case Operation::kPosterize:
        return static_cast<double>(RoundHalfEven(
            8.0 - bin / ((options_.bins - 1) / (wide ? 6.0 : 4.0))));
      case Operation::kSolarize:
        return 1.0 - up_to(1.0);
      case Operation::kIdentity:
      case Operation::kAutoContrast:
      case Operation::kEqualize:
        break;
    }
    return 0;
  }

  absl::Status Run(Operation operation, double strength, ImageSpan image,
                   AlignedBuffer& scratch) const {
    AffineParameters affine;
    switch (operation) {
      case Operation::kIdentity:
        return absl::OkStatus();
      case Operation::kShearX:
        affine.shear_x = strength;
        affine.about_corner = true;
        break;
      case Operation::kShearY:
        affine.shear_y = strength;
        affine.about_corner = true;
        break;
      case Operation::kTranslateX:
        affine.translate_x = strength;
        break;
      case Operation::kTranslateY:
        affine.translate_y = strength;
        break;
      case Operation::kRotate:
        affine.degrees = -strength;
        break;
      case Operation::kBrightness:
        AdjustBrightness(image, 1.0 + strength);
        return absl::OkStatus();
      case Operation::kColor:
        AdjustSaturation(image, 1.0 + strength);
        return absl::OkStatus();
      case Operation::kContrast:
        AdjustContrast(image, 1.0 + strength);
        return absl::OkStatus();
      case Operation::kSharpness:
        return AdjustSharpness(image, 1.0 + strength, scratch);
      case Operation::kPosterize:
        Posterize(image, static_cast<int>(strength));
        return absl::OkStatus();
      case Operation::kSolarize:
        Solarize(image, 255.0 * strength);
        return absl::OkStatus();
      case Operation::kAutoContrast:
        AutoContrast(image);
        return absl::OkStatus();
      case Operation::kEqualize:
        Equalize(image);
        return absl::OkStatus();
    }
    return WarpInPlace(image,
                       MakeAffine(affine, {image.width, image.height}).inverse,
                       options_.nearest, options_.fill, fill_given_, scratch);
  }

  const AutoAugmentOptions options_;
  bool fill_given_ = false;
};

}  // namespace

std::unique_ptr<const PixelOp> MakeAutoAugment(
    const AutoAugmentOptions& options) {
  return std::make_unique<AutoAugmentOp>(options);
}

}  // namespace millrace::augment
