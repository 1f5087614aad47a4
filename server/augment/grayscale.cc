#include "server/augment/grayscale.h"

#include "server/augment/color_functions.h"
#include "server/augment/random.h"

namespace millrace::augment {
namespace {

class GrayscaleOp final : public PixelOp {
 public:
  explicit GrayscaleOp(const GrayscaleOptions& options) : options_(options) {}

  absl::Status Apply(ImageSpan image, const OpContext& context) const override {
    CounterRandom random(context.sample_key, options_.place);
    const bool applied = random.Uniform() < options_.p;
    if (context.log != nullptr) {
      context.log->Add(options_.place, applied ? "grayscale: applied"
                                               : "grayscale: not applied");
    }
    if (applied) MakeGrey(image);
    return absl::OkStatus();
  }

 private:
  const GrayscaleOptions options_;
};

}  // namespace

std::unique_ptr<const PixelOp> MakeGrayscale(const GrayscaleOptions& options) {
  return std::make_unique<GrayscaleOp>(options);
}

}  // namespace millrace::augment
