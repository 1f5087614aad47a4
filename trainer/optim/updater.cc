#include "trainer/optim/updater.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/count_text.h"
#include "trainer/optim/gradients.h"

namespace millrace::optim {
namespace {

// Reached by 41 skipped steps in a row from the default first scale.
constexpr double kMinScale = 1.0 / (1 << 24);

}  // namespace

Updater::Updater(const Options& options, std::vector<at::Tensor> parameters,
                 at::Device device)
    : options_(options),
      parameters_(std::move(parameters)),
      optimizer_(options.optimizer, parameters_) {
  if (options.first_loss_scale.has_value()) {
    scaler_.emplace(*options.first_loss_scale, device);
  }
  if (options.ema > 0) average_.emplace(options.ema, parameters_);
}

at::Tensor Updater::Scale(const at::Tensor& loss) const {
  return scaler_.has_value() ? scaler_->Scale(loss) : loss;
}

void Updater::ClearGradients() { millrace::optim::ClearGradients(parameters_); }

void Updater::Step(uint64_t number, double factor) {
  const std::vector<at::Tensor> gradients = GradientsOf(parameters_);
  std::optional<at::Tensor> found_inf;
  if (scaler_.has_value()) found_inf = scaler_->Unscale(gradients);
  if (factor != 1) MultiplyGradients(gradients, factor);
  if (options_.clip_grad_norm > 0) {
    ClipGradientNorm(gradients, options_.clip_grad_norm);
  }
  interrupted_ = true;
  optimizer_.Step(LearningRate(number), found_inf);
  if (average_.has_value()) average_->Update(found_inf);
  if (scaler_.has_value()) scaler_->Update();
  interrupted_ = false;
}

absl::Status Updater::CheckScale() const {
  if (!scaler_.has_value()) return absl::OkStatus();
  const double scale = scaler_->scale();
  if (scale >= kMinScale) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the gradients are NaN or infinite at a loss scale of ", scale, ", ",
      CountText(scaler_->skipped(), "step was", "steps were"),
      " skipped: float16's range is not the cause; lower --lr, or try "
      "--precision=bfloat16"));
}

NamedParts Updater::State() const {
  NamedParts parts = {{"optimizer", optimizer_.State()}};
  if (scaler_.has_value()) parts.emplace_back("scaler", scaler_->State());
  if (average_.has_value()) parts.emplace_back("average", average_->State());
  return parts;
}

Updater::Options UpdaterOptions(const trainer::TrainerConfig& config,
                                const BatchGroups& groups) {
  Optimizer::Options optimizer;
  optimizer.kind = *OptimizerByName(config.optimizer);
  optimizer.momentum = config.momentum.value_or(optimizer.momentum);
  optimizer.nesterov = config.nesterov;
  optimizer.beta1 = config.beta1.value_or(optimizer.beta1);
  optimizer.beta2 = config.beta2.value_or(optimizer.beta2);
  optimizer.eps = config.eps.value_or(optimizer.eps);
  optimizer.weight_decay = config.weight_decay;
  optimizer.decay_all = config.decay_all;
  Schedule::Options schedule;
  schedule.kind = *ScheduleByName(config.schedule);
  schedule.lr = config.lr;
  schedule.min_lr = config.min_lr.value_or(schedule.min_lr);
  schedule.step_epochs = config.step_epochs.value_or(schedule.step_epochs);
  schedule.step_gamma = config.step_gamma.value_or(schedule.step_gamma);
  schedule.warmup_epochs = config.warmup_epochs;
  Updater::Options options = {
      .optimizer = optimizer,
      .schedule = Schedule(schedule, groups.per_epoch(), config.epochs),
      .clip_grad_norm = config.clip_grad_norm,
      .ema = config.ema};
  if (config.precision == "float16") {
    options.first_loss_scale =
        config.loss_scale.value_or(GradScaler::kFirstScale);
  }
  return options;
}

}  // namespace millrace::optim
