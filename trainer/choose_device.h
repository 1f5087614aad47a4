// Resolves --device to the device that a rank trains on.

#ifndef MILLRACE_TRAINER_CHOOSE_DEVICE_H_
#define MILLRACE_TRAINER_CHOOSE_DEVICE_H_

#include <torch/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "trainer/rank_env.h"

namespace millrace::trainer {

// `name` is auto, cpu or cuda; auto takes a GPU if there is one. The GPU
// becomes the current device of the calling thread. FailedPrecondition: there
// is no GPU, or none for this rank. libtorch's exceptions pass.
absl::StatusOr<torch::Device> ChooseDevice(const std::string& name,
                                           const RankEnv& env);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_CHOOSE_DEVICE_H_
