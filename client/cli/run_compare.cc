#include "client/cli/run_compare.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/run_judge.h"

namespace millrace {
namespace {

// A loss that is higher by more is worth a line.
constexpr double kLossMatters = 0.02;
constexpr double kAccuracyMatters = 0.005;
// Seconds of the shortest epoch that a claim needs, in one of the runs.
constexpr double kLeastEpochSeconds = 0.05;

std::vector<std::string> Missing(const std::vector<std::string>& from,
                                 const std::vector<std::string>& in) {
  std::vector<std::string> missing;
  for (const std::string& flag : from) {
    if (std::find(in.begin(), in.end(), flag) == in.end()) {
      missing.push_back(flag);
    }
  }
  return missing;
}

// "1.32", "0.0034": a small factor is not 0.
std::string Times(double factor) {
  return factor < 0.1 ? absl::StrFormat("%.2g", factor)
                      : absl::StrFormat("%.2f", factor);
}

void Differs(const char* what, const std::string& before,
             const std::string& after, std::vector<std::string>* notes) {
  if (before == after) return;
  notes->push_back(absl::StrCat("not the same ", what, ": ", before,
                                " before, ", after, " after"));
}

void AddNotes(const RunReport& before, const RunReport& after,
              std::vector<std::string>* notes) {
  Differs("dataset", before.dataset, after.dataset, notes);
  Differs("device", before.device, after.device, notes);
  Differs("number of ranks", absl::StrCat(before.world_size),
          absl::StrCat(after.world_size), notes);
  const auto dropped = Missing(before.flags, after.flags);
  const auto added = Missing(after.flags, before.flags);
  if (!dropped.empty() || !added.empty()) {
    notes->push_back(absl::StrCat(
        "flags: ", dropped.empty() ? "" : absl::StrJoin(dropped, " "),
        dropped.empty() ? "" : " -> ",
        added.empty() ? "(none)" : absl::StrJoin(added, " ")));
  } else if (before.plan_hash != after.plan_hash) {
    notes->push_back("the pipelines or the data differ (plan hash)");
  }
  for (const RunReport* run : {&before, &after}) {
    if (run->replay_batches > 0) {
      notes->push_back(absl::StrFormat(
          "%s repeated its first %.0f batches: it shows what a perfect loader "
          "would reach, its loss means nothing",
          run->path, run->replay_batches));
    }
  }
  if (before.replay_batches > 0 || after.replay_batches > 0) return;
  if (before.accuracy.has_value() && after.accuracy.has_value()) {
    if (*after.accuracy < *before.accuracy - kAccuracyMatters) {
      notes->push_back(absl::StrFormat(
          "accuracy fell from %.4f to %.4f: faster is not better here",
          *before.accuracy, *after.accuracy));
    }
  } else if (!before.loss.empty() && before.loss.size() == after.loss.size() &&
             after.loss.back() >
                 before.loss.back() +
                     kLossMatters * std::fabs(before.loss.back())) {
    notes->push_back(
        absl::StrFormat("the last loss rose from %.4f to %.4f: look at it "
                        "before you keep the change",
                        before.loss.back(), after.loss.back()));
  }
}

}  // namespace

Spread SecondsPerSample(const RunReport& run) {
  std::vector<double> seconds;
  double shortest = run.times.seconds;
  const size_t first = run.epochs.size() >= 3 ? 1 : 0;
  for (size_t i = first; i < run.epochs.size(); ++i) {
    const PartTimes& epoch = run.epochs[i];
    if (epoch.samples > 0 && epoch.seconds > 0) {
      seconds.push_back(epoch.seconds / epoch.samples);
      shortest = std::min(shortest, epoch.seconds);
    }
  }
  if (seconds.empty() && run.times.samples > 0) {
    seconds.push_back(run.times.seconds / run.times.samples);
  }
  Spread spread;
  if (seconds.empty()) return spread;
  std::sort(seconds.begin(), seconds.end());
  const size_t n = seconds.size();
  spread.values = n;
  spread.shortest = shortest;
  spread.least = seconds.front();
  spread.most = seconds.back();
  spread.median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
  return spread;
}

Comparison CompareRuns(const RunReport& before, const RunReport& after) {
  Comparison comparison;
  const Spread a = SecondsPerSample(before);
  const Spread b = SecondsPerSample(after);
  if (a.values == 0 || b.values == 0 || a.least <= 0 || b.least <= 0) {
    comparison.text = "nothing to compare: a run without samples";
    return comparison;
  }
  comparison.times_as_fast = a.median / b.median;
  comparison.least = a.least / b.most;
  comparison.most = a.most / b.least;
  const bool alone = a.values < 2 || b.values < 2;
  const std::string figures = absl::StrFormat(
      "%s times as fast (%s to %s over the epochs): %s samples/s before, %s "
      "after",
      Times(comparison.times_as_fast), Times(comparison.least),
      Times(comparison.most), RateText(1 / a.median), RateText(1 / b.median));
  if (before.model != after.model) {
    comparison.text =
        absl::StrCat("not compared: the models differ (", before.model,
                     " before, ", after.model,
                     " after), and samples/s of different models tell nothing "
                     "of a change; compare runs of one model");
  } else if (alone) {
    comparison.text =
        absl::StrCat("no difference that can be told: ", figures,
                     ", but from a single epoch the noise cannot be seen");
    comparison.notes.push_back(
        "train three epochs or more in both runs (--epochs=3): the first is "
        "left out, the others show the noise");
  } else if (std::max(a.shortest, b.shortest) < kLeastEpochSeconds) {
    comparison.text = absl::StrFormat(
        "no difference that can be told: %s, but epochs of %.3g s before and "
        "%.3g s after are too short for a claim",
        figures, a.shortest, b.shortest);
    comparison.notes.push_back(
        "train longer epochs, of 0.05 s or more, in one of the runs: with more "
        "samples, or a larger model");
  } else if (comparison.least > 1) {
    comparison.result = Comparison::Result::kFaster;
    comparison.text = absl::StrCat("the change helped: ", figures);
  } else if (comparison.most < 1) {
    comparison.result = Comparison::Result::kSlower;
    comparison.text = absl::StrCat("the change hurt: ", figures);
  } else {
    comparison.text = absl::StrCat("no difference that can be told: ", figures,
                                   "; epochs of the two runs overlap");
  }
  AddNotes(before, after, &comparison.notes);
  return comparison;
}

}  // namespace millrace
