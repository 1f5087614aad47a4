// Limits of a synthetic source (Source.synthetic of a spec). They bound what
// an unknown client may request: a sample costs a server no memory
// that is not bounded here, and a wait is short.
//
// Pure functions, safe from any thread.
//
//   MR_RETURN_IF_ERROR(CheckSynthetic(source.synthetic()));

#ifndef MILLRACE_PROTO_SYNTHETIC_H_
#define MILLRACE_PROTO_SYNTHETIC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

inline constexpr uint64_t kMaxSyntheticSamples = 1'000'000'000'000;
inline constexpr int kMaxSyntheticFields = 16;
inline constexpr int64_t kMaxSyntheticClasses = 1 << 20;
// Of a field of one sample: 2048 x 1024 x 3 fits.
inline constexpr uint64_t kMaxSyntheticFieldBytes = uint64_t{8} << 20;
// Of all fields of one sample that are not plain integers: each reader keeps
// them.
inline constexpr uint64_t kMaxSyntheticMadeBytes = uint64_t{256} << 10;
inline constexpr uint32_t kMaxSyntheticLatencyUs = 1'000'000;
inline constexpr uint32_t kMaxReadyBatches = 64;

// Whether the numbers of a field are any bits: integers that are no class
// index.
bool IsAnyBits(const SyntheticField& field);

// Bytes of the field of one sample. The field has been checked.
uint64_t SyntheticFieldBytes(const SyntheticField& field);

// InvalidArgument: a limit is exceeded, or fields contradict each other; names
// the field, the bound and what to do.
absl::Status CheckSynthetic(const Synthetic& synthetic);

}  // namespace millrace

#endif  // MILLRACE_PROTO_SYNTHETIC_H_
