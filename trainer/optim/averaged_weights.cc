#include "trainer/optim/averaged_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/zeros.h>

#include <string>

#include "common/logging.h"

namespace millrace::optim {

AveragedWeights::AveragedWeights(double decay,
                                 const std::vector<at::Tensor>& parameters)
    : decay_(decay),
      updates_(at::zeros(at::IntArrayRef{}, at::TensorOptions(at::kLong))) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.requires_grad()) continue;
    weights_.push_back(parameter);
    averages_.push_back(parameter.detach().clone());
  }
}

void AveragedWeights::Update(const std::optional<at::Tensor>& found_inf) {
  MR_CHECK(!swapped_) << "the average is in the model";
  const at::NoGradGuard no_grad;
  const bool first = updates_.item<int64_t>() == 0;
  updates_.add_(1);
  if (weights_.empty()) return;
  if (first) {
    // A skipped step left the first weights unchanged: they are averaged too.
    at::_foreach_copy_(averages_, weights_);
  } else if (!found_inf.has_value()) {
    at::_foreach_lerp_(averages_, weights_, 1 - decay_);
  } else {
    // The same sum with a decay that only the device knows.
    std::vector<at::Tensor> change = at::_foreach_sub(weights_, averages_);
    at::_foreach_mul_(change, found_inf->neg().add_(1).mul_(1 - decay_));
    at::_foreach_add_(averages_, change);
  }
}

void AveragedWeights::Swap() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor weight = weights_[i].clone();
    weights_[i].copy_(averages_[i]);
    averages_[i].copy_(weight);
  }
  swapped_ = !swapped_;
}

NamedTensors AveragedWeights::State() const {
  NamedTensors state = {{"updates", updates_}};
  for (size_t i = 0; i < averages_.size(); ++i) {
    state.emplace_back("average_" + std::to_string(i), averages_[i]);
  }
  return state;
}

}  // namespace millrace::optim
