// The revision of the bytes that Millrace makes of a sample.

#ifndef MILLRACE_SERVER_PLAN_CONTENT_REVISION_H_
#define MILLRACE_SERVER_PLAN_CONTENT_REVISION_H_

#include <cstdint>

namespace millrace::plan {

// Part of every plan. Increase it with any change after which the same spec
// over the same data may give other bytes: order, keys, parameters of an
// operation, a pixel kernel, the batch layout. A job never mixes servers of
// different revisions.
inline constexpr uint32_t kContentRevision = 4;

// The spec_version that this program understands.
inline constexpr uint32_t kSpecVersion = 1;

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_CONTENT_REVISION_H_
