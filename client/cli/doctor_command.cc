// `millrace doctor`: what limits a training run, from the summary that
// `millrace-train --json` writes, and whether a change made the run faster.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/diagnosis/run_compare.h"
#include "client/diagnosis/run_summary.h"
#include "client/diagnosis/run_verdict.h"
#include "common/count_text.h"
#include "common/json_text.h"
#include "common/program/flag_set.h"
#include "common/program/report.h"
#include "common/status_macros.h"

namespace millrace::cli {
namespace {

// `--compare BEFORE AFTER` is `--compare=BEFORE --run=AFTER`. InvalidArgument:
// --run is given as well.
absl::StatusOr<std::vector<std::string>> WithRun(
    absl::Span<const std::string> arguments) {
  const bool run_given = std::any_of(
      arguments.begin(), arguments.end(), [](const std::string& argument) {
        return argument == "--run" || absl::StartsWith(argument, "--run=");
      });
  std::vector<std::string> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    out.push_back(arguments[i]);
    if (arguments[i] == "--compare" && i + 2 < arguments.size() &&
        !absl::StartsWith(arguments[i + 1], "-") &&
        !absl::StartsWith(arguments[i + 2], "-")) {
      if (run_given) {
        return absl::InvalidArgumentError(
            absl::StrCat("--compare ", arguments[i + 1], " ", arguments[i + 2],
                         " names both runs: leave --run out"));
      }
      out.push_back(arguments[i + 1]);
      out.push_back(absl::StrCat("--run=", arguments[i + 2]));
      i += 2;
    }
  }
  return out;
}

std::string PartsTable(const diagnosis::RunSummary& run) {
  const diagnosis::RunTimes& t = run.times;
  std::vector<std::vector<std::string>> rows = {{"PART", "SECONDS", "SHARE"}};
  const auto add = [&rows, &t](const char* part, double seconds) {
    rows.push_back({part, absl::StrFormat("%.2f", seconds),
                    absl::StrFormat("%.1f %%", 100 * t.share(seconds))});
  };
  // Each second once, so that the shares add up. A label names what is within
  // another part, or runs in parallel.
  add("waiting for data", run.waited_for_servers());
  if (run.copies_in_wait()) {
    add("copying and transforming (host)",
        std::min(t.copy_seconds, t.data_seconds));
  }
  add("forward and loss", t.forward_seconds);
  add("backward", t.backward_seconds);
  add("optimiser", t.optimizer_seconds);
  if (run.world_size > 1) {
    add("waiting for other ranks (within backward)",
        std::max(0.0, t.allreduce_seconds - t.ranks_seconds));
    add("waiting for other ranks (before steps)", t.ranks_seconds);
  }
  const double parts = t.data_seconds + t.forward_seconds + t.backward_seconds +
                       t.optimizer_seconds + t.ranks_seconds;
  if (parts < t.seconds) add("other (not measured)", t.seconds - parts);
  add("whole training loop", t.seconds);
  if (!run.copies_in_wait()) {
    add(run.on_cpu() ? "copying and transforming (host, in parallel)"
                     : "copying and transforming (device, in parallel)",
        run.on_cpu() ? t.copy_seconds : t.device_copy_seconds);
  }
  return program::Table(rows);
}

std::string Text(const std::string& path, const diagnosis::RunSummary& run,
                 const std::vector<diagnosis::Finding>& findings) {
  const diagnosis::RunTimes& t = run.times;
  std::string text = diagnosis::EndText(run);
  if (!text.empty()) text += '\n';
  absl::StrAppendFormat(
      &text, "%s: %s on %s, %s, %s, %s of %s, %s samples/s\n", path, run.model,
      run.dataset.empty() ? "its pipeline" : run.dataset, run.device,
      CountText(run.world_size, "rank"), CountText(t.steps, "step"),
      CountText(run.batch_size, "sample"),
      RateText(t.rate(static_cast<double>(t.samples))));
  if (run.replay_batches > 0) {
    absl::StrAppend(&text, "the run repeated its first ",
                    CountText(run.replay_batches, "batch", "batches"),
                    ": this is the rate with a perfect loader\n");
  }
  absl::StrAppendFormat(
      &text, "\n%s\nCPU %.0f %% of %s, device busy %.0f %% (%s)\n",
      PartsTable(run), t.cpus > 0 ? 100 * t.share(t.cpu_seconds / t.cpus) : 0,
      CountText(t.cpus, "core"), 100 * t.device_busy,
      t.has_gpu_load() ? "NVML" : "from the times of the steps");
  for (const std::string& line :
       {diagnosis::OtherProgramsText(t), diagnosis::TooShortText(t)}) {
    if (!line.empty()) absl::StrAppend(&text, line, "\n");
  }
  text += '\n';
  if (findings.empty()) {
    absl::StrAppend(&text, "no single bottleneck\n");
  }
  for (size_t i = 0; i < findings.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "bottleneck: " : "then: ", findings[i].text,
                    diagnosis::GainText(findings[i]), "\n");
    for (const std::string& advice : findings[i].advice) {
      absl::StrAppend(&text, "  - ", advice, "\n");
    }
  }
  const bool at_start =
      std::any_of(findings.begin(), findings.end(), [](const auto& finding) {
        return finding.part == diagnosis::RunPart::kStart;
      });
  // The last whole epoch says nothing about a wait after it, and its reason for
  // a wait nothing about one at the start.
  if (run.final_wait_seconds <= 0 && !at_start &&
      t.share(t.data_seconds) >= diagnosis::kMinWaitShare &&
      !run.where_the_time_went.empty()) {
    absl::StrAppend(&text, "\nwait in the last epoch: ",
                    run.where_the_time_went.back(), "\n");
  }
  return text;
}

std::string Json(const std::string& path, const diagnosis::RunSummary& run,
                 const std::vector<diagnosis::Finding>& findings,
                 const std::optional<diagnosis::Comparison>& comparison) {
  JsonObject json;
  json.Add("run", path);
  json.Add("ended", run.ended);
  json.Add("error", run.error);
  json.Add("too_short", diagnosis::IsTooShort(run.times));
  json.Add("bottleneck",
           findings.empty() ? "" : diagnosis::NameOf(findings[0].part));
  json.AddJson("findings",
               JsonList(findings, [](const diagnosis::Finding& finding) {
                 JsonObject one;
                 one.Add("part", diagnosis::NameOf(finding.part));
                 one.Add("share", finding.share);
                 if (finding.max_gain > 0) {
                   one.Add("most_gain", finding.max_gain);
                 }
                 one.Add("text", finding.text);
                 return one.Add("advice", finding.advice).Json();
               }));
  if (comparison.has_value()) {
    const char* const results[] = {"faster", "slower", "not_told"};
    json.AddJson(
        "comparison",
        JsonObject()
            .Add("result", results[static_cast<int>(comparison->result)])
            .Add("times_as_fast", comparison->times_as_fast)
            .Add("least", comparison->min)
            .Add("most", comparison->max)
            .Add("text", comparison->text)
            .Add("notes", comparison->notes)
            .Json());
  }
  return json.Json();
}

absl::StatusOr<diagnosis::RunSummary> ReadRun(const std::string& path) {
  MR_ASSIGN_OR_RETURN(diagnosis::RunSummary run,
                      diagnosis::ReadRunSummary(path));
  MR_RETURN_IF_ERROR(diagnosis::CheckHasSteps(run, path));
  return run;
}

}  // namespace

absl::Status RunDoctor(absl::Span<const std::string> arguments) {
  std::string run_path;
  std::string before_path;
  bool json = false;
  program::FlagSet flags(
      {.command = "millrace doctor",
       .summary = "Says what limits a training run, what to change and how "
                  "much faster the run can become. With --compare: also says "
                  "whether a change made training faster.",
       .examples = {"millrace doctor --run=run.json",
                    "millrace doctor --compare before.json after.json"}});
  flags.Add("run", &run_path, "SUMMARY.json",
            "Summary of the run, which `millrace-train --json` writes");
  flags.Add("compare", &before_path, "BEFORE.json",
            "Summary of a run before the change; `--compare BEFORE AFTER` "
            "names both runs");
  flags.Add("json", &json, "", "Print one JSON object");
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> with_run,
                      UsageError(WithRun(arguments)));
  MR_RETURN_IF_ERROR(flags.Parse(with_run));
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return absl::OkStatus();
  }
  if (!before_path.empty() && before_path == run_path) {
    return UsageError(absl::InvalidArgumentError(
        absl::StrCat("--run and --compare both name ", run_path,
                     ": give the summaries of two runs")));
  }
  if (run_path.empty() && !before_path.empty()) {
    return UsageError(absl::InvalidArgumentError(
        absl::StrCat("--compare names one run, ", before_path,
                     ": give the summary of the other run too: --compare ",
                     before_path, " AFTER.json")));
  }
  if (run_path.empty()) {
    return UsageError(absl::InvalidArgumentError(
        "flag --run=SUMMARY.json is missing; train "
        "with --json=SUMMARY.json to get a summary"));
  }
  MR_ASSIGN_OR_RETURN(const diagnosis::RunSummary run,
                      UsageError(ReadRun(run_path)));
  const std::vector<diagnosis::Finding> findings = diagnosis::JudgeRun(run);
  std::optional<diagnosis::Comparison> comparison;
  if (!before_path.empty()) {
    MR_ASSIGN_OR_RETURN(const diagnosis::RunSummary before,
                        UsageError(ReadRun(before_path)));
    comparison = diagnosis::CompareRuns(before, run);
  }
  if (json) {
    std::printf("%s\n", Json(run_path, run, findings, comparison).c_str());
    return absl::OkStatus();
  }
  std::fputs(Text(run_path, run, findings).c_str(), stdout);
  if (comparison.has_value()) {
    std::printf("\ncompared with %s: %s\n", before_path.c_str(),
                comparison->text.c_str());
    for (const std::string& note : comparison->notes) {
      std::printf("  - %s\n", note.c_str());
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace::cli
