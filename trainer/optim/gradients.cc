#include "trainer/optim/gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

namespace millrace::optim {

void ClearGradients(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.mutable_grad().reset();
  }
}

std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

void MultiplyGradients(const std::vector<at::Tensor>& gradients,
                       double factor) {
  if (gradients.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_mul_(gradients, factor);
}

at::Tensor ClipGradientNorm(const std::vector<at::Tensor>& gradients,
                            double max_norm) {
  if (gradients.empty()) return {};
  const at::NoGradGuard no_grad;
  const at::Tensor norm =
      at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)));
  at::_foreach_mul_(
      gradients, norm.add(1e-6).reciprocal_().mul_(max_norm).clamp_max_(1.0));
  return norm;
}

}  // namespace millrace::optim
