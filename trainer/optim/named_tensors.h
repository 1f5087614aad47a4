// The state of a component of the training (an optimiser, the gradient scaler,
// the averaged weights) as named tensors: a checkpoint writes and restores
// them. The tensors are the component's own, not copies: copying into one
// changes the component.

#ifndef MILLRACE_TRAINER_OPTIM_NAMED_TENSORS_H_
#define MILLRACE_TRAINER_OPTIM_NAMED_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace millrace::optim {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Several of them, each with its name.
using NamedParts = std::vector<std::pair<std::string, NamedTensors>>;

}  // namespace millrace::optim

#endif  // MILLRACE_TRAINER_OPTIM_NAMED_TENSORS_H_
