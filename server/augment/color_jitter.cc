#include "server/augment/color_jitter.h"

#include <array>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "server/augment/color_steps.h"
#include "server/augment/random.h"

namespace millrace::augment {
namespace {

constexpr int kChanges = 4;
enum Change { kBrightness, kContrast, kSaturation, kHue };
constexpr std::array<const char*, kChanges> kNames = {"brightness", "contrast",
                                                      "saturation", "hue"};

// The n-th of the 24 orders, in lexicographic order.
std::array<int, kChanges> NthOrder(uint64_t n) {
  std::array<int, kChanges> rest = {0, 1, 2, 3};
  std::array<int, kChanges> order;
  uint64_t orders = 24;
  for (int i = 0; i < kChanges; ++i) {
    orders /= kChanges - i;
    const int pick = static_cast<int>(n / orders);
    n %= orders;
    order[i] = rest[pick];
    for (int k = pick; k + 1 < kChanges; ++k) rest[k] = rest[k + 1];
  }
  return order;
}

class ColorJitterOp final : public PixelOp {
 public:
  explicit ColorJitterOp(const ColorJitterOptions& options)
      : place_(options.place),
        p_(options.p),
        intervals_{options.brightness, options.contrast, options.saturation,
                   options.hue} {}

  absl::Status Apply(ImageSpan image, const OpContext& context) const override {
    CounterRandom random(context.sample_key, place_);
    const bool applied = random.Uniform() < p_;
    const std::array<int, kChanges> order = NthOrder(random.Below(24));
    std::array<double, kChanges> amounts = {};
    for (int change = 0; change < kChanges; ++change) {
      const double u = random.Uniform();
      if (const auto& interval = intervals_[change]) {
        amounts[change] = interval->low + (interval->high - interval->low) * u;
      }
    }
    if (context.log != nullptr) {
      context.log->Add(place_, applied ? Description(order, amounts)
                                       : "color_jitter: not applied");
    }
    if (applied) Change(image, order, amounts);
    return absl::OkStatus();
  }

 private:
  void Change(ImageSpan image, const std::array<int, kChanges>& order,
              const std::array<double, kChanges>& amounts) const {
    absl::InlinedVector<ColorStep, kChanges> before;
    absl::InlinedVector<ColorStep, kChanges> after;
    auto* steps = &before;
    for (int change : order) {
      if (!intervals_[change].has_value()) continue;
      const double amount = amounts[change];
      if (change == kContrast) {
        steps = &after;
      } else if (change == kBrightness) {
        steps->push_back(BrightnessStep(amount));
      } else if (image.channels == 1) {
        continue;
      } else if (change == kSaturation) {
        steps->push_back(SaturationStep(amount));
      } else {
        steps->push_back(HueStep(amount));
      }
    }
    if (intervals_[kContrast].has_value()) {
      ApplyColorStepsAndContrast(image, before, amounts[kContrast], after);
    } else if (!before.empty()) {
      ApplyColorSteps(image, before);
    }
  }

  std::string Description(const std::array<int, kChanges>& order,
                          const std::array<double, kChanges>& amounts) const {
    std::string names;
    std::string values;
    for (int change : order) {
      if (!intervals_[change].has_value()) continue;
      absl::StrAppend(&names, names.empty() ? "" : ",", kNames[change]);
      absl::StrAppend(&values, "; ", kNames[change], " ", amounts[change]);
    }
    return absl::StrCat("color_jitter: order ", names, values);
  }

  const uint32_t place_;
  const double p_;
  const std::array<std::optional<ColorJitterOptions::Interval>, kChanges>
      intervals_;
};

}  // namespace

std::unique_ptr<const PixelOp> MakeColorJitter(
    const ColorJitterOptions& options) {
  return std::make_unique<ColorJitterOp>(options);
}

}  // namespace millrace::augment
