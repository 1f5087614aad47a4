// Saves the weights of a model to a file of names and tensors, and loads them.
//
// Names, order and shapes are those of Python's module.state_dict(): parameters
// and buffers of a module, then of its children. One thread; waits for the
// device. Files are described in weights_file.h.
//
//   MR_RETURN_IF_ERROR(SaveWeights("mine.pt", WeightsOf(*model)));
//   MR_RETURN_IF_ERROR(LoadWeights("mine.pt", {}, WeightsOf(*model)));

#ifndef MILLRACE_TRAINER_WEIGHTS_MODEL_WEIGHTS_H_
#define MILLRACE_TRAINER_WEIGHTS_MODEL_WEIGHTS_H_

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace millrace::weights {

struct NamedWeight {
  std::string name;
  torch::Tensor tensor;  // the model's own
};

std::vector<NamedWeight> WeightsOf(const torch::nn::Module& model);

// FailedPrecondition: a value is NaN or infinite; the file at `path` is kept.
absl::Status SaveWeights(const std::string& path,
                         const std::vector<NamedWeight>& weights);

// Copies the file's values into `weights` in place; numbers of another width
// are converted. `leave_out`: see match.h. Nothing changes unless everything
// matches. Errors name the file.
absl::Status LoadWeights(const std::string& path,
                         const std::vector<std::string>& leave_out,
                         const std::vector<NamedWeight>& weights);

}  // namespace millrace::weights

#endif  // MILLRACE_TRAINER_WEIGHTS_MODEL_WEIGHTS_H_
