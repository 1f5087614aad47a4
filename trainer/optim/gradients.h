// Operations on all gradients of a model, between the backward pass and the
// optimiser's step.
//
// Functions on tensors, on any device; none waits for it. One thread.
//
//   ClearGradients(parameters);
//   loss.backward();
//   ClipGradientNorm(GradientsOf(parameters), 1.0);

#ifndef MILLRACE_TRAINER_OPTIM_GRADIENTS_H_
#define MILLRACE_TRAINER_OPTIM_GRADIENTS_H_

#include <ATen/core/Tensor.h>

#include <vector>

namespace millrace::optim {

// Sets them to none: the next backward pass then stores its gradients instead
// of adding them to zeros.
void ClearGradients(const std::vector<at::Tensor>& parameters);

// The defined gradients.
std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters);

// In place.
void MultiplyGradients(const std::vector<at::Tensor>& gradients, double factor);

// Multiplies in place by min(1, max_norm / (norm + 1e-6)), where norm is the
// Euclidean norm of all gradients as one vector
// (torch.nn.utils.clip_grad_norm_). Returns the norm before, 0-dimensional, on
// the device; undefined when there is no gradient.
at::Tensor ClipGradientNorm(const std::vector<at::Tensor>& gradients,
                            double max_norm);

}  // namespace millrace::optim

#endif  // MILLRACE_TRAINER_OPTIM_GRADIENTS_H_
