// The error for a device without memory left.

#ifndef MILLRACE_TRAINER_OUT_OF_MEMORY_H_
#define MILLRACE_TRAINER_OUT_OF_MEMORY_H_

#include <torch/types.h>

#include <cstdint>
#include <exception>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace::trainer {

// ResourceExhausted: names what failed and the batch size that would fit, from
// the device allocator's statistics. Call it after the failed step's tensors
// are destroyed. `error` is the exception.
absl::Status OutOfMemory(const std::exception& error, absl::string_view what,
                         torch::Device device, uint64_t rows,
                         uint32_t world_size, bool ran_before);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OUT_OF_MEMORY_H_
