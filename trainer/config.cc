#include "trainer/config.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

absl::Status Bad(absl::string_view flag, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " ", why));
}

}  // namespace

absl::Status TrainerConfig::Validate() const {
  if (endpoint.empty()) return Bad("endpoint", "is missing; give HOST:PORT");
  if (dataset.empty() && pipeline.empty()) {
    return Bad("dataset", "is missing; `millrace status` lists them");
  }
  if (!preset.empty() && !pipeline.empty()) {
    return Bad("preset", "and --pipeline exclude each other");
  }
  if (!eval_preset.empty() && !eval_pipeline.empty()) {
    return Bad("eval_preset", "and --eval_pipeline exclude each other");
  }
  if (eval_dataset.empty() &&
      (!eval_preset.empty() || !eval_pipeline.empty())) {
    return Bad("eval_dataset", "is missing, but how to evaluate is given");
  }
  if (model != "mlp" && model != "cnn" && model != "resnet18") {
    return Bad("model",
               absl::StrCat("is \"", model, "\"; choose mlp, cnn or resnet18"));
  }
  if (optimizer != "adam" && optimizer != "sgd") {
    return Bad("optimizer",
               absl::StrCat("is \"", optimizer, "\"; choose adam or sgd"));
  }
  if (!last_batch.empty() && last_batch != "drop" && last_batch != "pad") {
    return Bad("last_batch",
               absl::StrCat("is \"", last_batch, "\"; choose drop or pad"));
  }
  if (device != "auto" && device != "cpu" && device != "cuda") {
    return Bad("device",
               absl::StrCat("is \"", device, "\"; choose auto, cpu or cuda"));
  }
  if (epochs < 1) return Bad("epochs", "is 0; give at least 1");
  if (!std::isfinite(lr) || lr <= 0) {
    return Bad("lr", absl::StrCat("is ", lr, "; give a number above 0"));
  }
  if (!(momentum >= 0) || !(momentum < 1)) {
    return Bad("momentum", absl::StrCat("is ", momentum, "; give 0 to 1"));
  }
  if (!std::isfinite(weight_decay) || weight_decay < 0) {
    return Bad("weight_decay",
               absl::StrCat("is ", weight_decay, "; give 0 or more"));
  }
  if (device_prefetch < 1) {
    return Bad("device_prefetch", "is 0; give at least 1");
  }
  if (timeout <= absl::ZeroDuration()) return Bad("timeout", "is not above 0");
  if (rank_timeout <= absl::ZeroDuration()) {
    return Bad("rank_timeout", "is not above 0");
  }
  if (data_timeout <= absl::ZeroDuration()) {
    return Bad("data_timeout", "is not above 0");
  }
  if (step_timeout <= absl::ZeroDuration()) {
    return Bad("step_timeout", "is not above 0");
  }
  if (!(hedge_share >= 0 && hedge_share <= 1)) {
    return Bad("hedge_share",
               absl::StrCat("is ", hedge_share,
                            "; give a share of the steps, 0 (never) to 1"));
  }
  if (hedge_floor < absl::ZeroDuration()) {
    return Bad("hedge_floor", "is negative");
  }
  return absl::OkStatus();
}

}  // namespace millrace
