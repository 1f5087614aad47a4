// The bounds of what a spec may ask for; those of one transform alone stand in
// server/plan/transforms/.

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
// Of gaussian_blur, taps on a side.
inline constexpr uint32_t kMaxBlurKernel = 127;

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_SPEC_LIMITS_H_
