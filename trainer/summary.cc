#include "trainer/summary.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/json_text.h"

namespace millrace {
namespace {

std::string Json(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.9g", value) : "null";
}
std::string Json(uint64_t value) { return absl::StrCat(value); }
std::string Json(const std::string& text) { return JsonText(text); }

std::string Json(const std::vector<double>& values) {
  std::string out = "[";
  for (const double value : values) {
    absl::StrAppend(&out, out.size() > 1 ? ", " : "", Json(value));
  }
  return out + "]";
}

std::string Json(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    absl::StrAppend(&out, out.size() > 1 ? ", " : "", Json(text));
  }
  return out + "]";
}

std::string Json(const std::vector<RunTimes>& epochs) {
  std::string out = "[";
  for (const RunTimes& times : epochs) {
    absl::StrAppend(&out, out.size() > 1 ? ",\n    " : "\n    ", ToJson(times));
  }
  return out + "]";
}

std::string Json(const std::vector<uint64_t>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ", "), "]");
}

std::string Json(const BadSampleSummary& bad) {
  std::string damaged;
  for (const BadSampleSummary::Place& place : bad.damaged) {
    absl::StrAppend(&damaged, damaged.empty() ? "\n     " : ",\n     ",
                    "{\"dataset\": ", Json(place.dataset),
                    ", \"shard\": ", Json(place.shard),
                    ", \"row\": ", place.row, ", \"sample\": ", place.sample,
                    ", \"reason\": ", Json(place.reason), "}");
  }
  return absl::StrCat("{\"policy\": ", Json(bad.policy),
                      ", \"empty_rows\": ", Json(bad.empty_rows),
                      ", \"eval_empty_rows\": ", Json(bad.eval_empty_rows),
                      ",\n    \"damaged\": [", damaged, "]}");
}

}  // namespace

std::string ToJson(const TrainSummary& s) {
  std::string out = "{";
  auto add = [&out](const char* key, const std::string& value) {
    absl::StrAppend(&out, out.size() > 1 ? "," : "", "\n  \"", key,
                    "\": ", value);
  };
  add("ended", Json(s.ended));
  add("error", s.error.empty() ? "null" : Json(s.error));
  add("model", Json(s.model));
  add("dataset", Json(s.dataset));
  add("device", Json(s.device));
  add("world_size", Json(uint64_t{s.world_size}));
  add("batch_size", Json(s.batch_size));
  add("samples_per_epoch", Json(s.samples_per_epoch));
  add("parameters", Json(s.parameters));
  add("steps", Json(s.steps));
  add("samples", Json(s.samples));
  add("replay_batches", Json(s.replay_batches));
  add("epoch_seconds", Json(s.epoch_seconds));
  add("eval_seconds", Json(s.eval_seconds));
  add("samples_per_second", Json(s.samples_per_second));
  add("stall_share", Json(s.stall_share));
  add("rank_stall_shares", Json(s.rank_stall_shares));
  add("allreduce_share", Json(s.rank_allreduce_shares));
  add("allreduce_bytes", Json(s.allreduce_bytes));
  add("where_the_time_went", Json(s.where_the_time_went));
  add("times", ToJson(s.times));
  add("epoch_times", Json(s.epoch_times));
  add("loss", Json(s.loss));
  add("eval_loss", Json(s.eval_loss));
  add("eval_accuracy",
      s.eval_accuracy.has_value() ? Json(*s.eval_accuracy) : "null");
  add("eval_top5", s.eval_top5.has_value() ? Json(*s.eval_top5) : "null");
  add("eval_mean_iou",
      s.eval_mean_iou.has_value() ? Json(*s.eval_mean_iou) : "null");
  add("bad_samples", Json(s.bad_samples));
  add("loss_scale", s.loss_scale.has_value() ? Json(*s.loss_scale) : "null");
  add("skipped_steps",
      s.skipped_steps.has_value() ? Json(*s.skipped_steps) : "null");
  add("plan_hash", Json(s.plan_hash));
  add("fingerprint", Json(s.fingerprint));
  add("endpoint", Json(s.endpoint));
  add("pipeline", Json(s.pipeline));
  add("flags", Json(s.flags));
  return out + "\n}\n";
}

}  // namespace millrace
