#include "client/diagnosis/server_verdict.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/count_text.h"

namespace millrace::diagnosis {
namespace {

constexpr double kBusy = 0.75;

// Seconds of each stage in between, largest first.
std::vector<std::pair<double, std::string>> Stages(
    const GetStatusResponse& before, const GetStatusResponse& after) {
  std::vector<std::pair<double, std::string>> stages;
  for (const StageTime& stage : after.stages()) {
    double seconds = stage.seconds();
    for (const StageTime& then : before.stages()) {
      if (then.stage() == stage.stage()) seconds -= then.seconds();
    }
    if (seconds > 0) stages.emplace_back(seconds, stage.stage());
  }
  std::stable_sort(
      stages.begin(), stages.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  return stages;
}

}  // namespace

std::optional<double> BusyShare(const GetStatusResponse& before,
                                const GetStatusResponse& after) {
  const double seconds = after.uptime_seconds() - before.uptime_seconds();
  if (seconds <= 0 || after.threads() == 0 ||
      after.idle_thread_seconds() <= 0) {
    return std::nullopt;
  }
  const double idle =
      after.idle_thread_seconds() - before.idle_thread_seconds();
  return std::clamp(1 - idle / (seconds * after.threads()), 0.0, 1.0);
}

std::string StageShares(const GetStatusResponse& before,
                        const GetStatusResponse& after) {
  const auto stages = Stages(before, after);
  double all = 0;
  for (const auto& [seconds, stage] : stages) all += seconds;
  return absl::StrJoin(stages, ", ", [all](std::string* out, const auto& one) {
    absl::StrAppendFormat(out, "%s %.0f %%", one.second, 100 * one.first / all);
  });
}

std::string RaiseBudget(const FullShare& share) {
  return absl::StrCat(
      "raise --memory_budget",
      share.advised_budget_bytes() == 0
          ? ""
          : absl::StrCat(" to ", share.advised_budget_bytes() >> 20, "MiB"));
}

std::string ServerVerdict(const GetStatusResponse& before,
                          const GetStatusResponse& after) {
  if (after.shutting_down()) return "stopping";
  if (after.active_streams() == 0 &&
      after.batches_sent() == before.batches_sent()) {
    return "idle: no client requests batches";
  }
  const std::optional<double> busy = BusyShare(before, after);
  if (!busy.has_value()) {
    return "not clear: this version of the server does not report how busy its "
           "threads are";
  }
  const std::string share =
      absl::StrFormat("threads busy %.0f %%", 100 * *busy);
  if (*busy >= kBusy) {
    const auto stages = Stages(before, after);
    if (stages.empty()) return absl::StrCat(share, ": add cores or servers");
    const std::string& stage = stages[0].second;
    return absl::StrCat(share, ", mostly in ", stage,
                        stage == "read" && after.read_threads() == 0
                            ? ", and no thread reads ahead: start the server "
                              "without --read_threads=0"
                            : ": add cores or servers");
  }
  if (after.full_shares_size() > 0) {
    const FullShare& full = after.full_shares(0);
    return absl::StrCat(
        share, "; ", CountText(full.waiting_clients(), "client"), " at ",
        full.peer(), full.waiting_clients() == 1 ? " gets" : " get",
        " no batches, because other connections of this address use its share "
        "of the memory: ",
        RaiseBudget(full));
  }
  if (after.blocked_sends() > 0) {
    return absl::StrCat(share, "; ", after.blocked_sends(), " of ",
                        CountText(after.active_streams(), "stream"),
                        " blocked by a slow client or network");
  }
  if (after.waiting_for_memory() > 0) {
    const uint64_t waiting = after.waiting_for_memory();
    return absl::StrCat(share, "; ", CountText(waiting, "batch", "batches"),
                        waiting == 1 ? " waits" : " wait",
                        " for memory: raise --memory_budget");
  }
  return absl::StrCat(share, ": spare capacity");
}

}  // namespace millrace::diagnosis
