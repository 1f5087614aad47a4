// The draws of MixUp and CutMix for a batch: which one is applied, the sample's
// own share, and the partner's rectangle. The kernels are in
// server/augment/mix_pixels.h.
//
// The mixers of a spec are tried in order. The first one whose `p` hits is
// applied, and no other: `mix_up { p: 0.5 } cut_mix {}` is torchvision's
// RandomChoice([MixUp, CutMix]).
//
// Pure function of (batch key, mixers). Each mixer draws from
// CounterRandom(batch key, place), in this order: whether it is applied
// (Uniform() < p); lambda, from Beta(alpha, alpha); for CutMix, x and y of the
// centre. All ranks and servers draw the same values for a batch.
//
//   const BatchMix mix = DrawBatchMix(mixers, batch_key);
//   if (mix.kind == BatchMix::MIX_UP) MixRows(a, b, bytes, mix.share);

#ifndef MILLRACE_SERVER_AUGMENT_BATCH_MIX_H_
#define MILLRACE_SERVER_AUGMENT_BATCH_MIX_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace millrace::augment {

// One mix_up or cut_mix of the spec.
struct BatchMixer {
  bool cut = false;  // CutMix
  uint32_t place = 0;
  double p = 1;
  double alpha = 1;    // see SampleSymmetricBeta()
  int64_t height = 0;  // CutMix: size of the images
  int64_t width = 0;
};

struct BatchMix {
  // Shares are fixed point with this as 1.
  static constexpr uint32_t kOne = 65536;

  enum Kind { NONE, MIX_UP, CUT_MIX };
  Kind kind = NONE;
  int mixer = -1;         // index of the applied mixer
  uint32_t share = kOne;  // MixUp: own share, 0 .. kOne
  // CutMix: the partner's pixels are columns [left, right) of rows [top,
  // bottom). The rectangle may be empty.
  int64_t left = 0, top = 0, right = 0, bottom = 0;
  // Weights of the labels. They sum up to 1, up to the rounding of a CutMix
  // area.
  float own_weight = 1;
  float partner_weight = 0;
};

BatchMix DrawBatchMix(absl::Span<const BatchMixer> mixers, uint64_t batch_key);

// For display: "mix_up lambda 0.3127".
std::string Describe(const BatchMix& mix);

}  // namespace millrace::augment

#endif  // MILLRACE_SERVER_AUGMENT_BATCH_MIX_H_
