// The state of a part of the training (an optimiser, the gradient scaler, the
// averaged weights) as named tensors: what a checkpoint writes and restores.
// The tensors are the part's own, not copies: copying into one changes it.

#ifndef MILLRACE_TRAINER_OPTIM_NAMED_TENSORS_H_
#define MILLRACE_TRAINER_OPTIM_NAMED_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace millrace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Several of them, each under its own name.
using NamedParts = std::vector<std::pair<std::string, NamedTensors>>;

}  // namespace millrace

#endif  // MILLRACE_TRAINER_OPTIM_NAMED_TENSORS_H_
