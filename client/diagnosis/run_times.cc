#include "client/diagnosis/run_times.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/count_text.h"

namespace millrace::diagnosis {

double RunTimes::compute_seconds() const {
  const double waits_in_backward =
      std::max(0.0, allreduce_seconds - ranks_seconds);
  return std::max(0.0, forward_seconds + backward_seconds + optimizer_seconds -
                           waits_in_backward);
}

double RunTimes::share(double part_seconds) const {
  return std::clamp(rate(part_seconds), 0.0, 1.0);
}

double RunTimes::rate(double amount) const {
  return seconds > 0 ? amount / seconds : 0;
}

void RunTimes::Add(const RunTimes& epoch) {
  const double all = seconds + epoch.seconds;
  if (all > 0) {
    device_busy =
        (device_busy * seconds + epoch.device_busy * epoch.seconds) / all;
  }
  // A mean of both sources counts as the weaker one.
  if (seconds == 0 || epoch.device_busy_source == "step_times") {
    device_busy_source = epoch.device_busy_source;
  }
  const double waited = epoch.data_seconds - epoch.start_data_seconds;
  if (seconds == 0 || waited > longest_wait_) {
    longest_wait_ = waited;
    wait_cause = epoch.wait_cause;
  }
  seconds = all;
  steps += epoch.steps;
  samples += epoch.samples;
  data_seconds += epoch.data_seconds;
  start_seconds += epoch.start_seconds;
  start_data_seconds += epoch.start_data_seconds;
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

std::string PartsText(const RunTimes& t) {
  std::string text = absl::StrFormat(
      "data %.0f %%, forward %.0f %%, backward %.0f %%, optimiser %.0f %%",
      100 * t.share(t.data_seconds), 100 * t.share(t.forward_seconds),
      100 * t.share(t.backward_seconds), 100 * t.share(t.optimizer_seconds));
  if (t.allreduce_seconds > 0) {
    absl::StrAppendFormat(&text, " (all-reduce %.0f %%)",
                          100 * t.share(t.allreduce_seconds));
  }
  absl::StrAppendFormat(&text, "; CPU %.1f of %s", t.rate(t.cpu_seconds),
                        CountText(t.cpus, "core"));
  if (t.has_gpu_load()) {
    absl::StrAppendFormat(&text, ", GPU busy %.0f %%", 100 * t.device_busy);
  }
  return text;
}

}  // namespace millrace::diagnosis
