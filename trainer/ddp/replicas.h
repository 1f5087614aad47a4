// Verifies that all ranks hold the same model, bit for bit. Every sum of
// gradients has the same bits on all ranks, so different weights mean a bug,
// bad memory, or ranks that were started differently, and averaging would hide
// that.
//
//   MR_RETURN_IF_ERROR(VerifyReplicas(*model, {}, *ranks, "after epoch 2"));

#ifndef MILLRACE_TRAINER_DDP_REPLICAS_H_
#define MILLRACE_TRAINER_DDP_REPLICAS_H_

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trainer/ddp/communicator.h"

namespace millrace::ddp {

// Compares parameters, buffers and the named numbers. Aborted, on all ranks:
// they differ; names ranks and the first value. A collective call; a no-op with
// one rank. Reads the whole model back from its device.
absl::Status VerifyReplicas(
    const torch::nn::Module& model,
    const std::vector<std::pair<std::string, int64_t>>& numbers,
    Communicator& ranks, absl::string_view when);

}  // namespace millrace::ddp

#endif  // MILLRACE_TRAINER_DDP_REPLICAS_H_
