#include "server/augment/random_erasing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/augment/portable_math.h"

namespace millrace::augment {
namespace {

class RandomErasingOp final : public PixelOp {
 public:
  explicit RandomErasingOp(RandomErasingOptions options)
      : options_(std::move(options)) {}

  absl::Status Apply(ImageSpan image, const OpContext& context) const override {
    CounterRandom random(context.sample_key, options_.place);
    Rect rect;
    if (random.Uniform() < options_.p) {
      rect = RandomErasingRect({image.width, image.height}, options_, random);
    }
    const bool applied = rect.width > 0 && rect.height > 0;
    if (context.log != nullptr) {
      context.log->Add(options_.place,
                       applied
                           ? absl::StrCat("random_erasing: left ", rect.left,
                                          ", top ", rect.top, ", width ",
                                          rect.width, ", height ", rect.height)
                           : "random_erasing: not applied");
    }
    if (!applied) return absl::OkStatus();
    image.data += rect.top * image.stride + rect.left * image.channels;
    image.width = rect.width;
    image.height = rect.height;
    if (options_.random_value) {
      PaintNoise(image, random);
    } else {
      PaintValue(image);
    }
    return absl::OkStatus();
  }

 private:
  void PaintValue(ImageSpan area) const {
    const int64_t row_bytes = area.width * area.channels;
    const std::vector<uint8_t>& value = options_.value;
    if (value.size() <= 1) {
      const int byte = value.empty() ? 0 : value[0];
      for (int64_t y = 0; y < area.height; ++y) {
        std::memset(area.data + y * area.stride, byte,
                    static_cast<size_t>(row_bytes));
      }
      return;
    }
    for (int64_t i = 0; i < row_bytes; ++i) {
      area.data[i] = value[static_cast<size_t>(i % area.channels)];
    }
    for (int64_t y = 1; y < area.height; ++y) {
      std::memcpy(area.data + y * area.stride, area.data,
                  static_cast<size_t>(row_bytes));
    }
  }

  static void PaintNoise(ImageSpan area, CounterRandom& random) {
    const int64_t row_bytes = area.width * area.channels;
    for (int64_t y = 0; y < area.height; ++y) {
      uint8_t* const row = area.data + y * area.stride;
      for (int64_t i = 0; i < row_bytes; i += 8) {
        const uint64_t bytes = random.Next64();
        for (int64_t k = 0; k < std::min<int64_t>(8, row_bytes - i); ++k) {
          row[i + k] = static_cast<uint8_t>(bytes >> (8 * k));
        }
      }
    }
  }

  const RandomErasingOptions options_;
};

}  // namespace

Rect RandomErasingRect(Size image, const RandomErasingOptions& options,
                       CounterRandom& random) {
  constexpr int kTries = 10;
  const double area =
      static_cast<double>(image.width) * static_cast<double>(image.height);
  const double log_ratio_min = PortableLog(options.ratio_min);
  const double log_ratio_max = PortableLog(options.ratio_max);
  for (int i = 0; i < kTries; ++i) {
    const double target =
        area * random.Uniform(options.scale_min, options.scale_max);
    const double ratio =
        PortableExp(random.Uniform(log_ratio_min, log_ratio_max));
    const int64_t height = RoundHalfEven(std::sqrt(target * ratio));
    const int64_t width = RoundHalfEven(std::sqrt(target / ratio));
    if (height >= image.height || width >= image.width) continue;
    const int64_t top = random.Below(image.height - height + 1);
    const int64_t left = random.Below(image.width - width + 1);
    return {left, top, width, height};
  }
  return {};
}

std::unique_ptr<const PixelOp> MakeRandomErasing(RandomErasingOptions options) {
  return std::make_unique<RandomErasingOp>(std::move(options));
}

}  // namespace millrace::augment
