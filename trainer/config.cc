#include "trainer/config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/flag_needs.h"
#include "common/status_macros.h"
#include "proto/output_names.h"
#include "trainer/losses/loss_kind.h"
#include "trainer/models/model_name.h"
#include "trainer/subset_flag.h"
#include "trainer/weights/weights_file.h"

namespace millrace::trainer {
namespace {

// A layer with more outputs is a mistake.
constexpr uint64_t kMaxClasses = 1 << 24;

absl::Status Bad(absl::string_view flag, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " ", why));
}

// Refuses flags that have no effect beside the others.
absl::Status CheckEffects(const TrainerConfig& c) {
  const bool sgd = c.optimizer == "sgd";
  struct Rule {
    absl::string_view flag;
    bool no_effect;
    absl::string_view applies_to;
  };
  const Rule rules[] = {
      {"beta1", sgd && c.beta1.has_value(), "adam and adamw"},
      {"beta2", sgd && c.beta2.has_value(), "adam and adamw"},
      {"eps", sgd && c.eps.has_value(), "adam and adamw"},
      {"momentum", !sgd && c.momentum.has_value(),
       "sgd; adam and adamw have --beta1"},
      {"nesterov", !sgd && c.nesterov, "sgd"},
      {"step_epochs", c.schedule != "step" && c.step_epochs.has_value(),
       "--schedule=step"},
      {"step_gamma", c.schedule != "step" && c.step_gamma.has_value(),
       "--schedule=step"},
      {"min_lr", c.schedule == "constant" && c.min_lr.has_value(),
       "--schedule=step and --schedule=cosine"},
      {"loss_scale", c.precision != "float16" && c.loss_scale.has_value(),
       "--precision=float16"},
      {"label_smoothing", c.loss != "cross_entropy" && c.label_smoothing > 0,
       "--loss=cross_entropy"}};
  for (const Rule& rule : rules) {
    if (!rule.no_effect) continue;
    return Bad(rule.flag, absl::StrCat("applies only to ", rule.applies_to));
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const TrainerConfig& c) {
  for (const auto& [flag, value] :
       {std::pair("momentum", c.momentum), std::pair("beta1", c.beta1),
        std::pair("beta2", c.beta2),
        std::pair("label_smoothing", std::optional(c.label_smoothing)),
        std::pair("ema", std::optional(c.ema))}) {
    if (value.has_value() && !(*value >= 0 && *value < 1)) {
      return Bad(flag, absl::StrCat("is ", *value, "; give 0 to below 1"));
    }
  }
  for (const auto& [flag, value] :
       {std::pair("lr", std::optional(c.lr)), std::pair("eps", c.eps)}) {
    if (value.has_value() && !(std::isfinite(*value) && *value > 0)) {
      return Bad(flag, absl::StrCat("is ", *value, "; give a number above 0"));
    }
  }
  for (const auto& [flag, value] :
       {std::pair("weight_decay", c.weight_decay),
        std::pair("clip_grad_norm", c.clip_grad_norm)}) {
    if (!(std::isfinite(value) && value >= 0)) {
      return Bad(flag, absl::StrCat("is ", value, "; give 0 or more"));
    }
  }
  if (c.nesterov && c.momentum == 0.0) {
    return Bad("nesterov", "needs a --momentum above 0");
  }
  if (c.decay_all && c.weight_decay == 0) {
    return Bad("decay_all", "needs a --weight_decay above 0");
  }
  if (c.min_lr.has_value() && !(*c.min_lr >= 0 && *c.min_lr <= c.lr)) {
    return Bad("min_lr",
               absl::StrCat("is ", *c.min_lr, "; give 0 to --lr=", c.lr));
  }
  for (const auto& [flag, value] :
       {std::pair("step_epochs", c.step_epochs.value_or(1)),
        std::pair("accumulate", c.accumulate), std::pair("epochs", c.epochs),
        std::pair("device_prefetch", uint64_t{c.device_prefetch})}) {
    if (value < 1) return Bad(flag, "is 0; give at least 1");
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
  if (c.loss_scale.has_value() &&
      !(std::isfinite(*c.loss_scale) && *c.loss_scale >= 1)) {
    return Bad("loss_scale",
               absl::StrCat("is ", *c.loss_scale, "; give 1 or more"));
  }
  return absl::OkStatus();
}

// Refuses flags without the other flag that they need.
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
  if (loader.endpoint.empty()) {
    return Bad("endpoint", "is missing; give HOST:PORT");
  }
  if (dataset.empty() && pipeline.empty()) {
    return Bad("dataset", "is missing; `millrace status` lists them");
  }
  if (!preset.empty() && !pipeline.empty()) {
    return Bad("preset",
               "and --pipeline cannot be used together: remove one of them");
  }
  if (!eval_preset.empty() && !eval_pipeline.empty()) {
    return Bad(
        "eval_preset",
        "and --eval_pipeline cannot be used together: remove one of them");
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
  if (const auto name = models::ParseModelName(model); !name.ok()) {
    return Bad("model", name.status().message());
  }
  if (const auto name = losses::ParseLossName(loss); !name.ok()) {
    return Bad("loss", name.status().message());
  }
  if (classes == 1) return Bad("classes", "is 1; give 2 or more");
  if (classes > kMaxClasses) {
    return Bad("classes",
               absl::StrCat("is ", classes, "; give at most ", kMaxClasses));
  }
  if (!init_weights.empty() && !resume.empty() && resume != "auto") {
    return Bad("init_weights",
               "and --resume cannot be used together, because a checkpoint has "
               "weights: remove one of them");
  }
  if (!save_weights.empty()) {
    if (const auto good = weights::CheckWeightsName(save_weights); !good.ok()) {
      return Bad("save_weights", good.message());
    }
  }
  if (!last_batch.empty() && last_batch != "drop" && last_batch != "pad") {
    return Bad("last_batch",
               absl::StrCat("is \"", last_batch, "\"; choose drop or pad"));
  }
  if (device == "cuda" && prepare_ahead) {
    return Bad("prepare_ahead",
               "has no effect with --device=cuda, where batches are always "
               "prepared ahead: leave it out");
  }
  MR_RETURN_IF_ERROR(CheckEffects(*this));
  MR_RETURN_IF_ERROR(CheckNumbers(*this));
  if (rank_timeout.has_value() && *rank_timeout <= absl::ZeroDuration()) {
    return Bad("rank_timeout", "is not above 0");
  }
  if (repeat_batches > 0) {
    // Files that would pass for the result of training.
    const auto excluded = [this](absl::string_view flag) {
      return Bad(flag, absl::StrCat("and --repeat_batches=", repeat_batches,
                                    " cannot be used together, because a run "
                                    "that repeats its first batches measures "
                                    "time and trains nothing: remove one of "
                                    "them"));
    };
    if (max_steps > 0 && max_steps <= repeat_batches / accumulate) {
      return Bad("max_steps",
                 "ends the run before --repeat_batches repeats "
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

std::string TrainerConfig::AuditFile(uint32_t rank) const {
  if (audit_dir.empty()) return "";
  return absl::StrFormat("%s/rank-%05d.mraudit", audit_dir, rank);
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

}  // namespace millrace::trainer
