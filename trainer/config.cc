#include "trainer/config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/flag_needs.h"
#include "common/status_macros.h"
#include "proto/output_names.h"
#include "trainer/losses/loss_kind.h"
#include "trainer/models/model_name.h"
#include "trainer/subset_flag.h"
#include "trainer/weights/weights_file.h"

namespace millrace {
namespace {

// A layer with more outputs is a mistake.
constexpr uint64_t kMostClasses = 1 << 24;

absl::Status Bad(absl::string_view flag, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " ", why));
}

absl::Status CheckOptimizer(const TrainerConfig& c) {
  if (c.optimizer != "sgd" && c.optimizer != "adam" && c.optimizer != "adamw") {
    return Bad("optimizer", absl::StrCat("is \"", c.optimizer,
                                         "\"; choose sgd, adam or adamw"));
  }
  if (!std::isfinite(c.lr) || c.lr <= 0) {
    return Bad("lr", absl::StrCat("is ", c.lr, "; give a number above 0"));
  }
  const std::string of = absl::StrCat("; --optimizer is ", c.optimizer);
  if (c.optimizer == "sgd") {
    for (const auto& [flag, given] : {std::pair("beta1", c.beta1.has_value()),
                                      std::pair("beta2", c.beta2.has_value()),
                                      std::pair("eps", c.eps.has_value())}) {
      if (given) return Bad(flag, absl::StrCat("is of adam and adamw", of));
    }
    if (c.nesterov && c.momentum == 0.0) {
      return Bad("nesterov", "needs a --momentum above 0");
    }
  } else {
    if (c.momentum.has_value()) {
      return Bad("momentum",
                 absl::StrCat("is of sgd", of, ", which has --beta1"));
    }
    if (c.nesterov) return Bad("nesterov", absl::StrCat("is of sgd", of));
  }
  for (const auto& [flag, value] :
       {std::pair("momentum", c.momentum), std::pair("beta1", c.beta1),
        std::pair("beta2", c.beta2)}) {
    if (value.has_value() && !(*value >= 0 && *value < 1)) {
      return Bad(flag, absl::StrCat("is ", *value, "; give 0 to below 1"));
    }
  }
  if (c.eps.has_value() && !(std::isfinite(*c.eps) && *c.eps > 0)) {
    return Bad("eps", absl::StrCat("is ", *c.eps, "; give a number above 0"));
  }
  if (!std::isfinite(c.weight_decay) || c.weight_decay < 0) {
    return Bad("weight_decay",
               absl::StrCat("is ", c.weight_decay, "; give 0 or more"));
  }
  if (c.decay_all && c.weight_decay == 0) {
    return Bad("decay_all", "needs a --weight_decay above 0");
  }
  return absl::OkStatus();
}

absl::Status CheckSchedule(const TrainerConfig& c) {
  if (c.schedule != "constant" && c.schedule != "step" &&
      c.schedule != "cosine") {
    return Bad("schedule", absl::StrCat("is \"", c.schedule,
                                        "\"; choose constant, step or cosine"));
  }
  const std::string is = absl::StrCat("; --schedule is ", c.schedule);
  if (c.schedule != "step") {
    if (c.step_epochs.has_value()) {
      return Bad("step_epochs", absl::StrCat("is of --schedule=step", is));
    }
    if (c.step_gamma.has_value()) {
      return Bad("step_gamma", absl::StrCat("is of --schedule=step", is));
    }
  }
  if (c.min_lr.has_value()) {
    if (c.schedule == "constant") {
      return Bad("min_lr", absl::StrCat("is of step and cosine", is));
    }
    if (!(*c.min_lr >= 0 && *c.min_lr <= c.lr)) {
      return Bad("min_lr",
                 absl::StrCat("is ", *c.min_lr, "; give 0 to --lr=", c.lr));
    }
  }
  if (c.step_epochs.has_value() && *c.step_epochs < 1) {
    return Bad("step_epochs", "is 0; give at least 1");
  }
  if (c.step_gamma.has_value() && !(*c.step_gamma > 0 && *c.step_gamma < 1)) {
    return Bad("step_gamma", absl::StrCat("is ", *c.step_gamma,
                                          "; give a number between 0 and 1"));
  }
  if (!(c.warmup_epochs >= 0 &&
        c.warmup_epochs <= static_cast<double>(c.epochs))) {
    return Bad("warmup_epochs",
               absl::StrCat("is ", c.warmup_epochs,
                            "; give 0 to --epochs=", c.epochs));
  }
  return absl::OkStatus();
}

absl::Status CheckStep(const TrainerConfig& c) {
  if (!(c.label_smoothing >= 0 && c.label_smoothing < 1)) {
    return Bad("label_smoothing",
               absl::StrCat("is ", c.label_smoothing, "; give 0 to below 1"));
  }
  if (c.label_smoothing > 0 && c.loss != "cross_entropy") {
    return Bad(
        "label_smoothing",
        absl::StrCat("is a matter of --loss=cross_entropy, not of ", c.loss));
  }
  if (c.accumulate < 1) return Bad("accumulate", "is 0; give at least 1");
  if (!std::isfinite(c.clip_grad_norm) || c.clip_grad_norm < 0) {
    return Bad("clip_grad_norm", absl::StrCat("is ", c.clip_grad_norm,
                                              "; give 0 (never) or more"));
  }
  if (!(c.ema >= 0 && c.ema < 1)) {
    return Bad("ema", absl::StrCat("is ", c.ema,
                                   "; give 0 (none) to below 1, 0.999 say"));
  }
  if (c.precision != "float32" && c.precision != "bfloat16" &&
      c.precision != "float16") {
    return Bad("precision",
               absl::StrCat("is \"", c.precision,
                            "\"; choose float32, bfloat16 or float16"));
  }
  if (c.loss_scale.has_value()) {
    if (c.precision != "float16") {
      return Bad("loss_scale",
                 absl::StrCat("is of --precision=float16; --precision is ",
                              c.precision));
    }
    if (!(std::isfinite(*c.loss_scale) && *c.loss_scale >= 1)) {
      return Bad("loss_scale",
                 absl::StrCat("is ", *c.loss_scale, "; give 1 or more"));
    }
  }
  return absl::OkStatus();
}

// A flag that acts only beside another one is a mistake without it.
absl::Status CheckNeeds(const TrainerConfig& c) {
  static const auto* const needs = new std::vector<FlagNeed>{
      {"eval_preset", {"eval_dataset", "eval_subset"}},
      {"eval_pipeline", {"eval_dataset", "eval_subset"}},
      {"subset_seed", {"train_subset", "eval_subset"}},
      {"subset_unit", {"train_subset", "eval_subset"}},
      {"init_weights_without", {"init_weights"}},
      {"checkpoint_every", {"checkpoint"}},
      {"profile_steps", {"profile"}}};
  const std::pair<absl::string_view, bool> given[] = {
      {"eval_dataset", !c.eval_dataset.empty()},
      {"eval_subset", !c.eval_subset.empty()},
      {"eval_preset", !c.eval_preset.empty()},
      {"eval_pipeline", !c.eval_pipeline.empty()},
      {"train_subset", !c.train_subset.empty()},
      {"subset_seed", c.subset_seed != 0},
      {"subset_unit", c.subset_unit != 0},
      {"init_weights", !c.init_weights.empty()},
      {"init_weights_without", !c.init_weights_without.empty()},
      {"checkpoint", !c.checkpoint.empty()},
      {"checkpoint_every", c.checkpoint_every > 0},
      {"profile", !c.profile.empty()},
      {"profile_steps", c.profile_steps.has_value()}};
  return CheckFlagNeeds(*needs, [&given](absl::string_view name) {
    return std::find(std::begin(given), std::end(given),
                     std::pair(name, true)) != std::end(given);
  });
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
  PipelineSpec unused;
  MR_RETURN_IF_ERROR(SelectOutputs(outputs, unused));
  MR_RETURN_IF_ERROR(CheckNeeds(*this));
  for (const auto& [flag, text] : {std::pair("train_subset", &train_subset),
                                   std::pair("eval_subset", &eval_subset)}) {
    if (!text->empty()) {
      MR_RETURN_IF_ERROR(ParseSubsetFlag(flag, *text).status());
    }
  }
  if (checkpoint.empty() && resume == "auto") {
    return Bad("resume", "is auto, which needs --checkpoint=FILE");
  }
  if (const auto name = ParseModelName(model); !name.ok()) {
    return Bad("model", name.status().message());
  }
  if (const auto name = ParseLossName(loss); !name.ok()) {
    return Bad("loss", name.status().message());
  }
  if (classes == 1) return Bad("classes", "is 1; give 2 or more");
  if (classes > kMostClasses) {
    return Bad("classes",
               absl::StrCat("is ", classes, "; give at most ", kMostClasses));
  }
  if (!init_weights.empty() && !resume.empty() && resume != "auto") {
    return Bad("init_weights",
               "and --resume exclude each other: a checkpoint has its weights");
  }
  if (!save_weights.empty()) {
    if (const auto good = CheckWeightsName(save_weights); !good.ok()) {
      return Bad("save_weights", good.message());
    }
  }
  if (!last_batch.empty() && last_batch != "drop" && last_batch != "pad") {
    return Bad("last_batch",
               absl::StrCat("is \"", last_batch, "\"; choose drop or pad"));
  }
  if (device != "auto" && device != "cpu" && device != "cuda") {
    return Bad("device",
               absl::StrCat("is \"", device, "\"; choose auto, cpu or cuda"));
  }
  if (device == "cuda" && prepare_ahead) {
    return Bad("prepare_ahead",
               "has no effect with --device=cuda, where batches are always "
               "prepared ahead: leave it out");
  }
  if (epochs < 1) return Bad("epochs", "is 0; give at least 1");
  MR_RETURN_IF_ERROR(CheckOptimizer(*this));
  MR_RETURN_IF_ERROR(CheckSchedule(*this));
  MR_RETURN_IF_ERROR(CheckStep(*this));
  if (device_prefetch < 1) {
    return Bad("device_prefetch", "is 0; give at least 1");
  }
  if (timeout <= absl::ZeroDuration()) return Bad("timeout", "is not above 0");
  if (rank_timeout.has_value() && *rank_timeout <= absl::ZeroDuration()) {
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
  if (hedge_floor.has_value()) {
    if (*hedge_floor < absl::ZeroDuration()) {
      return Bad("hedge_floor", "is negative");
    }
    if (hedge_share == 0) {
      return Bad("hedge_floor",
                 "has no effect with --hedge_share=0: leave one of them out");
    }
  }
  if (replay_batches > 0) {
    // What would be taken for the result of training.
    const auto excluded = [this](absl::string_view flag) {
      return Bad(flag, absl::StrCat("and --replay_batches=", replay_batches,
                                    " exclude each other: a run that repeats "
                                    "its first batches measures time and "
                                    "trains nothing"));
    };
    if (max_steps > 0 && max_steps <= replay_batches / accumulate) {
      return Bad("max_steps",
                 "ends the run before --replay_batches repeats "
                 "anything; give more steps or fewer batches");
    }
    if (!checkpoint.empty()) return excluded("checkpoint");
    if (!audit_dir.empty()) return excluded("audit_dir");
    if (!step_losses.empty()) return excluded("step_losses");
    if (!save_weights.empty()) return excluded("save_weights");
  }
  if (profile_steps.has_value()) {
    MR_RETURN_IF_ERROR(ParseProfileSteps(*profile_steps).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<ProfiledSteps> ParseProfileSteps(const std::string& text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  const bool one = text.find('-') == std::string::npos;
  ProfiledSteps range;
  if (!absl::SimpleAtoi(parts.first, &range.first) ||
      !absl::SimpleAtoi(one ? parts.first : parts.second, &range.last) ||
      range.first < 1 || range.last < range.first) {
    return Bad("profile_steps",
               absl::StrCat("is \"", text,
                            "\"; give FROM-TO, steps of this run counted from "
                            "1, such as 5-9"));
  }
  return range;
}

}  // namespace millrace
