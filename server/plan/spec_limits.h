// The bounds of what a spec may ask for.

#ifndef MILLRACE_SERVER_PLAN_SPEC_LIMITS_H_
#define MILLRACE_SERVER_PLAN_SPEC_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace millrace {

inline constexpr uint64_t kMaxBatchSize = uint64_t{1} << 20;
// Of a crop or resize that a spec names, in pixels.
inline constexpr uint32_t kMaxSpecSide = 16384;
inline constexpr int kMaxTransforms = 64;
inline constexpr int kMaxOutputs = 256;
inline constexpr int kMaxFieldRoles = 256;
inline constexpr int kMaxSources = 256;
// Samples of an epoch, and of all sources together.
inline constexpr uint64_t kMaxEpochSamples = uint64_t{1} << 60;
// Of a block of BLOCK order and of a run of a subset. Keeps every product of
// the order's arithmetic below 2^63.
inline constexpr uint64_t kMaxBlock = uint64_t{1} << 30;
// Defaults of BLOCK order.
inline constexpr uint64_t kDefaultBlockSize = 64;
inline constexpr uint64_t kDefaultWindowBlocks = 64;
inline constexpr size_t kMaxNameBytes = 512;
// Of a fill or erasing colour, one a channel.
inline constexpr int kMaxFillValues = 4;
// Of a custom transform's configuration.
inline constexpr size_t kMaxConfigBytes = size_t{1} << 16;
// Of gaussian_blur, taps on a side.
inline constexpr uint32_t kMaxBlurKernel = 127;
// Of the factors of color_jitter and the scale of random_affine.
inline constexpr double kMaxFactor = 100;
// Of trivial_augment_wide and rand_augment.
inline constexpr uint32_t kMaxMagnitudeBins = 1001;
inline constexpr uint32_t kMaxRandAugmentOps = 16;

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_SPEC_LIMITS_H_
