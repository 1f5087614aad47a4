// The limits of a spec. Limits of a single transform are in
// server/plan/transforms/.

#ifndef MILLRACE_SERVER_PLAN_SPEC_LIMITS_H_
#define MILLRACE_SERVER_PLAN_SPEC_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace millrace::plan {

inline constexpr uint64_t kMaxBatchSize = uint64_t{1} << 20;
// Max side of a crop or resize in a spec, in pixels.
inline constexpr uint32_t kMaxSpecSide = 16384;
inline constexpr int kMaxTransforms = 64;
inline constexpr int kMaxOutputs = 256;
inline constexpr int kMaxFieldRoles = 256;
inline constexpr int kMaxSources = 256;
// Max samples of an epoch, and of all sources together.
inline constexpr uint64_t kMaxEpochSamples = uint64_t{1} << 60;
// Max size of a block of BLOCK order and of a run of a subset. Keeps every
// product of the order's arithmetic below 2^63.
inline constexpr uint64_t kMaxBlock = uint64_t{1} << 30;
// Defaults of BLOCK order.
inline constexpr uint64_t kDefaultBlockSize = 64;
inline constexpr uint64_t kDefaultWindowBlocks = 64;
inline constexpr size_t kMaxNameBytes = 512;
// Max values of a fill or erasing colour, one for each channel.
inline constexpr int kMaxFillValues = 4;
// Max taps of gaussian_blur along each axis.
inline constexpr uint32_t kMaxBlurKernel = 127;

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_SPEC_LIMITS_H_
