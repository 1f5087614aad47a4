#include "trainer/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <string>

namespace millrace::optim {
namespace {

// The fused kernels iterate over the memory of weight, gradient and state in
// parallel: all must have the same layout. Autograd lays gradients out as their
// weights, except that dimensions of size 1 may have any stride.
at::Tensor LaidOutAs(const at::Tensor& weight, const at::Tensor& gradient) {
  if (gradient.strides() == weight.strides()) return gradient;
  bool same_memory = true;
  for (int64_t i = 0; i < weight.dim(); ++i) {
    same_memory &=
        weight.size(i) == 1 || weight.stride(i) == gradient.stride(i);
  }
  if (same_memory) {
    return gradient.as_strided(weight.sizes(), weight.strides());
  }
  return at::empty_like(weight).copy_(gradient);
}

}  // namespace

Optimizer::Optimizer(const Options& options,
                     const std::vector<at::Tensor>& parameters)
    : options_(options) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.requires_grad()) continue;
    const double decay =
        options.decay_all || parameter.dim() > 1 ? options.weight_decay : 0;
    auto group = std::find_if(
        groups_.begin(), groups_.end(), [&](const Group& candidate) {
          const at::Tensor& member = weights_[candidate.members[0]];
          return candidate.weight_decay == decay &&
                 member.scalar_type() == parameter.scalar_type();
        });
    if (group == groups_.end()) {
      group = groups_.insert(groups_.end(), Group{.weight_decay = decay});
    }
    group->members.push_back(weights_.size());
    weights_.push_back(parameter);
    const bool has_state = options.kind != Kind::kSgd || options.momentum != 0;
    if (has_state) first_.push_back(at::zeros_like(parameter));
    if (options.kind != Kind::kSgd)
      second_.push_back(at::zeros_like(parameter));
  }
  if (options.kind != Kind::kSgd && !weights_.empty()) {
    step_ =
        at::zeros(at::IntArrayRef{}, weights_[0].options().dtype(at::kFloat));
  }
}

void Optimizer::Step(double learning_rate,
                     const std::optional<at::Tensor>& found_inf) {
  const at::NoGradGuard no_grad;
  if (step_.defined()) step_.add_(1);
  for (const Group& group : groups_) {
    std::vector<at::Tensor> weights, gradients, first, second, steps;
    for (const size_t i : group.members) {
      const at::Tensor& gradient = weights_[i].grad();
      if (!gradient.defined()) continue;
      weights.push_back(weights_[i]);
      gradients.push_back(LaidOutAs(weights_[i], gradient));
      if (!first_.empty()) first.push_back(first_[i]);
      if (!second_.empty()) second.push_back(second_[i]);
    }
    if (weights.empty()) continue;
    if (options_.kind == Kind::kSgd) {
      // From a state of zero the first step stores the gradient in it, as
      // torch.optim does at its first step.
      at::_fused_sgd_(weights, gradients, first, group.weight_decay,
                      options_.momentum, learning_rate, /*dampening=*/0,
                      options_.nesterov, /*maximize=*/false,
                      /*is_first_step=*/false, /*grad_scale=*/{}, found_inf);
      continue;
    }
    // The kernels read the count and do not change it: one tensor for all.
    steps.assign(weights.size(), step_);
    if (options_.kind == Kind::kAdamW) {
      at::_fused_adamw_(weights, gradients, first, second,
                        /*max_exp_avg_sqs=*/{}, steps, learning_rate,
                        options_.beta1, options_.beta2, group.weight_decay,
                        options_.eps, /*amsgrad=*/false, /*maximize=*/false,
                        /*grad_scale=*/{}, found_inf);
    } else {
      at::_fused_adam_(weights, gradients, first, second,
                       /*max_exp_avg_sqs=*/{}, steps, learning_rate,
                       options_.beta1, options_.beta2, group.weight_decay,
                       options_.eps, /*amsgrad=*/false, /*maximize=*/false,
                       /*grad_scale=*/{}, found_inf);
    }
  }
  if (step_.defined() && found_inf.has_value()) step_.sub_(*found_inf);
}

NamedTensors Optimizer::State() const {
  NamedTensors state;
  if (step_.defined()) state.emplace_back("step", step_);
  const bool adam = options_.kind != Kind::kSgd;
  for (size_t i = 0; i < first_.size(); ++i) {
    const std::string number = std::to_string(i);
    state.emplace_back((adam ? "exp_avg_" : "momentum_") + number, first_[i]);
    if (adam) state.emplace_back("exp_avg_sq_" + number, second_[i]);
  }
  return state;
}

std::optional<Optimizer::Kind> OptimizerByName(absl::string_view name) {
  if (name == "sgd") return Optimizer::Kind::kSgd;
  if (name == "adam") return Optimizer::Kind::kAdam;
  if (name == "adamw") return Optimizer::Kind::kAdamW;
  return std::nullopt;
}

}  // namespace millrace::optim
