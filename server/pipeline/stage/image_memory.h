// The maximum memory that an image is charged for: what its decoder may take,
// and as much again for the pixels that its transforms keep beside it. Turning
// a photograph upright alone copies every pixel that was decoded.

#ifndef MILLRACE_SERVER_PIPELINE_STAGE_IMAGE_MEMORY_H_
#define MILLRACE_SERVER_PIPELINE_STAGE_IMAGE_MEMORY_H_

#include <cstdint>

#include "server/decode/limits.h"

namespace millrace::pipeline {

inline constexpr int64_t kMaxImageBytes = 2 * decode::kMaxDecodedBytes;

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_STAGE_IMAGE_MEMORY_H_
