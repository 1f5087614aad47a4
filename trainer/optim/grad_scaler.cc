#include "trainer/optim/grad_scaler.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

namespace millrace::optim {
namespace {

constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr int64_t kGrowthInterval = 2000;

}  // namespace

GradScaler::GradScaler(double first_scale, at::Device device)
    : scale_(at::full(at::IntArrayRef{}, first_scale,
                      at::TensorOptions(at::kFloat).device(device))),
      good_(at::zeros(at::IntArrayRef{},
                      at::TensorOptions(at::kInt).device(device))),
      skipped_(at::zeros(at::IntArrayRef{},
                         at::TensorOptions(at::kDouble).device(device))),
      found_inf_(at::zeros(at::IntArrayRef{},
                           at::TensorOptions(at::kFloat).device(device))) {}

at::Tensor GradScaler::Scale(const at::Tensor& loss) const {
  return loss.mul(scale_);
}

const at::Tensor& GradScaler::Unscale(
    const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  found_inf_.zero_();
  // In double precision the reciprocal of every scale is exact enough.
  const at::Tensor inverse =
      scale_.to(at::kDouble).reciprocal_().to(at::kFloat);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_,
                                                 inverse);
  return found_inf_;
}

void GradScaler::Update() {
  const at::NoGradGuard no_grad;
  skipped_.add_(found_inf_);
  at::_amp_update_scale_(scale_, good_, found_inf_, kGrowth, kBackoff,
                         kGrowthInterval);
}

double GradScaler::scale() const { return scale_.item<float>(); }

uint64_t GradScaler::skipped() const {
  return static_cast<uint64_t>(skipped_.item<double>());
}

NamedTensors GradScaler::State() const {
  return {{"scale", scale_}, {"good_steps", good_}, {"skipped", skipped_}};
}

}  // namespace millrace::optim
