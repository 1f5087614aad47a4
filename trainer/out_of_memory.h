// The sentence about a device without memory left.

#ifndef MILLRACE_TRAINER_OUT_OF_MEMORY_H_
#define MILLRACE_TRAINER_OUT_OF_MEMORY_H_

#include <torch/types.h>

#include <cstdint>
#include <exception>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// ResourceExhausted: what failed, and which batch size would fit, by the device
// allocator's statistics. To be called when the failed step's tensors are gone.
// `error` is what was thrown.
absl::Status OutOfMemory(const std::exception& error, absl::string_view what,
                         torch::Device device, uint64_t rows,
                         uint32_t world_size, bool ran_before);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_OUT_OF_MEMORY_H_
