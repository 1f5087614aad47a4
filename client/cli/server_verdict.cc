#include "client/cli/server_verdict.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/count_text.h"

namespace millrace {
namespace {

constexpr double kBusy = 0.75;

// Seconds of each stage between the looks, most first.
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

double BusyShare(const GetStatusResponse& before,
                 const GetStatusResponse& after) {
  const double seconds = after.uptime_seconds() - before.uptime_seconds();
  if (seconds <= 0 || after.threads() == 0 ||
      after.idle_thread_seconds() <= 0) {
    return -1;
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
  const double busy = BusyShare(before, after);
  if (busy < 0) return "not clear: the server does not say how busy it is";
  const std::string share = absl::StrFormat("threads busy %.0f %%", 100 * busy);
  if (busy >= kBusy) {
    const auto stages = Stages(before, after);
    if (!stages.empty() && stages[0].second == "read" &&
        after.read_threads() == 0) {
      return absl::StrCat(share,
                          ", most in read, and no thread reads ahead: start it "
                          "without --read_threads=0");
    }
    return absl::StrCat(share,
                        stages.empty()
                            ? std::string()
                            : absl::StrCat(", most in ", stages[0].second),
                        ": add cores or servers");
  }
  if (after.full_shares_size() > 0) {
    const FullShare& full = after.full_shares(0);
    return absl::StrCat(
        share, "; ", CountText(full.waiting_clients(), "client"), " of ",
        full.peer(), full.waiting_clients() == 1 ? " gets" : " get",
        " nothing, slow connections hold the address's share of the memory: ",
        RaiseBudget(full));
  }
  if (after.blocked_sends() > 0) {
    return absl::StrCat(share, "; ", after.blocked_sends(), " of ",
                        after.active_streams(),
                        " streams wait for their client or the way to it");
  }
  if (after.waiting_for_memory() > 0) {
    const uint64_t waiting = after.waiting_for_memory();
    return absl::StrCat(share, "; ", CountText(waiting, "batch", "batches"),
                        waiting == 1 ? " waits" : " wait",
                        " for memory: raise --memory_budget");
  }
  return absl::StrCat(share, ": room for more");
}

}  // namespace millrace
