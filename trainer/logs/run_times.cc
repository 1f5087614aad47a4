#include "trainer/logs/run_times.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/json_text.h"

namespace millrace {

double RunTimes::compute_seconds() const {
  const double waits_in_backward =
      std::max(0.0, allreduce_seconds - ranks_seconds);
  return std::max(0.0, forward_seconds + backward_seconds + optimizer_seconds -
                           waits_in_backward);
}

void RunTimes::Add(const RunTimes& epoch) {
  const double all = seconds + epoch.seconds;
  if (all > 0) {
    device_busy =
        (device_busy * seconds + epoch.device_busy * epoch.seconds) / all;
  }
  // Epochs with different sources make the weaker one.
  if (seconds == 0 || epoch.device_busy_source == "step_times") {
    device_busy_source = epoch.device_busy_source;
  }
  if (seconds == 0 || epoch.data_seconds > longest_wait_) {
    longest_wait_ = epoch.data_seconds;
    wait_cause = epoch.wait_cause;
  }
  seconds = all;
  steps += epoch.steps;
  samples += epoch.samples;
  data_seconds += epoch.data_seconds;
  copy_seconds += epoch.copy_seconds;
  device_copy_seconds += epoch.device_copy_seconds;
  forward_seconds += epoch.forward_seconds;
  backward_seconds += epoch.backward_seconds;
  optimizer_seconds += epoch.optimizer_seconds;
  allreduce_seconds += epoch.allreduce_seconds;
  ranks_seconds += epoch.ranks_seconds;
  cpu_seconds += epoch.cpu_seconds;
  cpus = std::max(cpus, epoch.cpus);
  other_cpu_seconds += epoch.other_cpu_seconds;
  machine_cpus = std::max(machine_cpus, epoch.machine_cpus);
  pinned_bytes = std::max(pinned_bytes, epoch.pinned_bytes);
}

std::string ToJson(const RunTimes& t) {
  std::string out = "{";
  const auto add = [&out](const char* key, const std::string& value) {
    absl::StrAppend(&out, out.size() > 1 ? ", " : "", "\"", key, "\": ", value);
  };
  const auto number = [&add](const char* key, double value) {
    add(key, JsonNumber(value));
  };
  number("seconds", t.seconds);
  add("steps", absl::StrCat(t.steps));
  add("samples", absl::StrCat(t.samples));
  number("data_seconds", t.data_seconds);
  number("copy_seconds", t.copy_seconds);
  number("device_copy_seconds", t.device_copy_seconds);
  number("forward_seconds", t.forward_seconds);
  number("backward_seconds", t.backward_seconds);
  number("optimizer_seconds", t.optimizer_seconds);
  number("allreduce_seconds", t.allreduce_seconds);
  number("ranks_seconds", t.ranks_seconds);
  number("compute_seconds", t.compute_seconds());
  number("data_share", t.share(t.data_seconds));
  number("compute_share", t.share(t.compute_seconds()));
  number("allreduce_share", t.share(t.allreduce_seconds));
  number("cpu_seconds", t.cpu_seconds);
  add("cpus", absl::StrCat(t.cpus));
  number("cpu_percent", 100 * t.share(t.cpu_seconds));
  number("other_cpu_seconds", t.other_cpu_seconds);
  add("machine_cpus", absl::StrCat(t.machine_cpus));
  add("pinned_bytes", absl::StrCat(t.pinned_bytes));
  number("device_busy", t.device_busy);
  add("device_busy_source", JsonText(t.device_busy_source));
  add("wait_cause", JsonText(t.wait_cause));
  return out + "}";
}

std::string PartsText(const RunTimes& t) {
  std::string text = absl::StrFormat(
      "data %.0f %%, forward %.0f %%, backward %.0f %%, optimiser %.0f %%",
      100 * t.share(t.data_seconds), 100 * t.share(t.forward_seconds),
      100 * t.share(t.backward_seconds), 100 * t.share(t.optimizer_seconds));
  if (t.allreduce_seconds > 0) {
    absl::StrAppendFormat(&text, " (all-reduce %.0f %%)",
                          100 * t.share(t.allreduce_seconds));
  }
  absl::StrAppendFormat(&text, "; CPU %.0f %% of %d00 %%",
                        100 * t.share(t.cpu_seconds), t.cpus);
  if (t.device_busy_source == "nvml") {
    absl::StrAppendFormat(&text, ", GPU busy %.0f %%", 100 * t.device_busy);
  }
  return text;
}

}  // namespace millrace
