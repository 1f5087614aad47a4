#include "client/diagnosis/run_compare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/count_text.h"

namespace millrace::diagnosis {
namespace {

// A larger rise of the loss, or fall of the accuracy, is reported.
constexpr double kLossMatters = 0.02;
constexpr double kAccuracyMatters = 0.005;
// Seconds of the shortest epoch that a claim needs, in one of the runs.
constexpr double kMinEpochSeconds = 0.05;

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
  notes->push_back(absl::StrCat("the ", what, " differs: ", before, " before, ",
                                after, " after"));
}

void AddNotes(const RunSummary& before, const RunSummary& after,
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
  const std::pair<const char*, const RunSummary&> runs[] = {{"before", before},
                                                            {"after", after}};
  for (const auto& [when, run] : runs) {
    if (run.replay_batches == 0) continue;
    notes->push_back(absl::StrFormat(
        "the run %s the change repeated its first %s: its rate is the upper "
        "bound with a perfect loader; its loss has no meaning",
        when, CountText(run.replay_batches, "batch", "batches")));
  }
  if (before.replay_batches > 0 || after.replay_batches > 0) return;
  if (before.eval_accuracy.has_value() && after.eval_accuracy.has_value()) {
    if (*after.eval_accuracy < *before.eval_accuracy - kAccuracyMatters) {
      notes->push_back(absl::StrFormat(
          "the accuracy fell from %.4f to %.4f: check it before you keep the "
          "change",
          *before.eval_accuracy, *after.eval_accuracy));
    }
  } else if (!before.loss.empty() && before.loss.size() == after.loss.size() &&
             after.loss.back() >
                 before.loss.back() +
                     kLossMatters * std::fabs(before.loss.back())) {
    notes->push_back(
        absl::StrFormat("the last loss rose from %.4f to %.4f: check it before "
                        "you keep the change",
                        before.loss.back(), after.loss.back()));
  }
}

}  // namespace

EpochSpread SecondsPerSample(const RunSummary& run) {
  std::vector<double> seconds;
  double shortest = run.times.seconds;
  const size_t first = run.epoch_times.size() >= 3 ? 1 : 0;
  for (size_t i = first; i < run.epoch_times.size(); ++i) {
    const RunTimes& epoch = run.epoch_times[i];
    if (epoch.samples > 0 && epoch.seconds > 0) {
      seconds.push_back(epoch.seconds / static_cast<double>(epoch.samples));
      shortest = std::min(shortest, epoch.seconds);
    }
  }
  if (seconds.empty() && run.times.samples > 0) {
    seconds.push_back(run.times.seconds /
                      static_cast<double>(run.times.samples));
  }
  EpochSpread spread;
  if (seconds.empty()) return spread;
  std::sort(seconds.begin(), seconds.end());
  const size_t n = seconds.size();
  spread.epochs = n;
  spread.shortest = shortest;
  spread.min = seconds.front();
  spread.max = seconds.back();
  spread.median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
  return spread;
}

Comparison CompareRuns(const RunSummary& before, const RunSummary& after) {
  Comparison comparison;
  const EpochSpread a = SecondsPerSample(before);
  const EpochSpread b = SecondsPerSample(after);
  if (a.epochs == 0 || b.epochs == 0 || a.min <= 0 || b.min <= 0) {
    comparison.text = "nothing to compare: a run without samples";
    return comparison;
  }
  comparison.times_as_fast = a.median / b.median;
  comparison.min = a.min / b.max;
  comparison.max = a.max / b.min;
  const bool alone = a.epochs < 2 || b.epochs < 2;
  const std::string figures = absl::StrFormat(
      "%s times as fast (%s to %s over the epochs): %s samples/s before, %s "
      "after",
      Times(comparison.times_as_fast), Times(comparison.min),
      Times(comparison.max), RateText(1 / a.median), RateText(1 / b.median));
  if (before.model != after.model) {
    comparison.text = absl::StrCat("not compared: the models differ (",
                                   before.model, " before, ", after.model,
                                   " after); compare runs of one model");
  } else if (alone) {
    comparison.text =
        absl::StrCat("no significant difference: ", figures,
                     ": one epoch is not enough to measure the noise");
    comparison.notes.push_back(
        "train at least three epochs in both runs (--epochs=3): the first is "
        "not counted, the others show the noise");
  } else if (std::max(a.shortest, b.shortest) < kMinEpochSeconds) {
    comparison.text = absl::StrFormat(
        "no significant difference: %s, but epochs of %.3g s before and "
        "%.3g s after are too short for a claim",
        figures, a.shortest, b.shortest);
    comparison.notes.push_back(
        "train epochs of at least 0.05 s in one of the runs: use more samples "
        "or a larger model");
  } else if (comparison.min > 1) {
    comparison.result = Comparison::Result::kFaster;
    comparison.text = absl::StrCat("the change helped: ", figures);
  } else if (comparison.max < 1) {
    comparison.result = Comparison::Result::kSlower;
    comparison.text = absl::StrCat("the change hurt: ", figures);
  } else {
    comparison.text = absl::StrCat("no significant difference: ", figures,
                                   "; the epochs of both runs overlap");
  }
  AddNotes(before, after, &comparison.notes);
  return comparison;
}

}  // namespace millrace::diagnosis
