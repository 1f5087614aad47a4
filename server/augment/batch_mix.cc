#include "server/augment/batch_mix.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "server/augment/beta_distribution.h"
#include "server/augment/portable_math.h"
#include "server/augment/random.h"

namespace millrace::augment {
namespace {

// torchvision 0.26, transforms/v2/_augment.py, CutMix.make_params.
void DrawBox(double lambda, const BatchMixer& mixer, CounterRandom& random,
             BatchMix& mix) {
  const auto centre_x = static_cast<int64_t>(random.Below(mixer.width));
  const auto centre_y = static_cast<int64_t>(random.Below(mixer.height));
  const double r = 0.5 * std::sqrt(1.0 - lambda);
  const auto half_width =
      static_cast<int64_t>(r * static_cast<double>(mixer.width));
  const auto half_height =
      static_cast<int64_t>(r * static_cast<double>(mixer.height));
  mix.left = std::max<int64_t>(centre_x - half_width, 0);
  mix.top = std::max<int64_t>(centre_y - half_height, 0);
  mix.right = std::min(centre_x + half_width, mixer.width);
  mix.bottom = std::min(centre_y + half_height, mixer.height);
  const double area =
      static_cast<double>((mix.right - mix.left) * (mix.bottom - mix.top));
  const double all = static_cast<double>(mixer.width * mixer.height);
  mix.partner_weight = static_cast<float>(area / all);
  mix.own_weight = static_cast<float>((all - area) / all);
}

}  // namespace

BatchMix DrawBatchMix(absl::Span<const BatchMixer> mixers, uint64_t batch_key) {
  BatchMix mix;
  for (int i = 0; i < static_cast<int>(mixers.size()); ++i) {
    const BatchMixer& mixer = mixers[i];
    CounterRandom random(batch_key, mixer.place);
    if (!(random.Uniform() < mixer.p)) continue;
    mix.mixer = i;
    const double lambda = SampleSymmetricBeta(mixer.alpha, random);
    if (mixer.cut) {
      mix.kind = BatchMix::CUT_MIX;
      DrawBox(lambda, mixer, random, mix);
    } else {
      mix.kind = BatchMix::MIX_UP;
      mix.share = static_cast<uint32_t>(RoundHalfEven(lambda * BatchMix::kOne));
      // Both are exact, and so is their sum.
      mix.own_weight = static_cast<float>(mix.share) / BatchMix::kOne;
      mix.partner_weight =
          static_cast<float>(BatchMix::kOne - mix.share) / BatchMix::kOne;
    }
    break;
  }
  return mix;
}

std::string Describe(const BatchMix& mix) {
  switch (mix.kind) {
    case BatchMix::MIX_UP:
      return absl::StrFormat("mix_up lambda %.6f", mix.own_weight);
    case BatchMix::CUT_MIX:
      return absl::StrFormat(
          "cut_mix box left %d top %d width %d height %d, lambda %.6f",
          mix.left, mix.top, mix.right - mix.left, mix.bottom - mix.top,
          mix.own_weight);
    default:
      return "not mixed";
  }
}

}  // namespace millrace::augment
