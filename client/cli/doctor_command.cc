// `millrace doctor`: what limits a training run, from the summary that
// millrace-train --json has written, and whether a change has helped.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/run_compare.h"
#include "client/cli/run_judge.h"
#include "client/cli/run_report.h"
#include "common/count_text.h"
#include "common/json_text.h"
#include "common/program/flag_set.h"
#include "common/program/report.h"
#include "common/status_macros.h"

namespace millrace {
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

std::string PartsText(const RunReport& run) {
  const PartTimes& t = run.times;
  std::vector<std::vector<std::string>> rows = {{"PART", "SECONDS", "SHARE"}};
  const auto add = [&rows, &t](const char* part, double seconds) {
    rows.push_back({part, absl::StrFormat("%.2f", seconds),
                    absl::StrFormat("%.1f %%", 100 * t.share(seconds))});
  };
  // Each second once, so that the shares add up; what happens beside these
  // parts, or within one, says so.
  add("waiting for data", run.waited_for_servers());
  if (run.copies_in_wait()) {
    add("copying and transforming (host)", std::min(t.copy, t.data));
  }
  add("forward and loss", t.forward);
  add("backward", t.backward);
  add("optimiser", t.optimizer);
  if (run.world_size > 1) {
    add("waiting for other ranks (within backward)",
        std::max(0.0, t.allreduce - t.ranks));
    add("agreeing with other ranks to go on", t.ranks);
  }
  const double parts = t.data + t.forward + t.backward + t.optimizer + t.ranks;
  if (parts < t.seconds) add("between the parts", t.seconds - parts);
  add("all of the training loop", t.seconds);
  if (!run.copies_in_wait()) {
    add(run.on_cpu() ? "copying and transforming (host, beside the parts)"
                     : "copying and transforming (device, beside the parts)",
        run.on_cpu() ? t.copy : t.device_copy);
  }
  return Table(rows);
}

std::string Text(const RunReport& run, const std::vector<Finding>& findings) {
  const PartTimes& t = run.times;
  std::string text = absl::StrFormat(
      "%s: %s on %s, %s, %s, %s of %s, %s samples/s\n", run.path, run.model,
      run.dataset.empty() ? "its pipeline" : run.dataset, run.device,
      CountText(static_cast<uint64_t>(run.world_size), "rank"),
      CountText(static_cast<uint64_t>(t.steps), "step"),
      CountText(static_cast<uint64_t>(run.batch_size), "sample"),
      RateText(t.samples / t.seconds));
  if (run.replay_batches > 0) {
    absl::StrAppendFormat(&text,
                          "its batches were repeats of the first %.0f: this is "
                          "the rate with a perfect loader\n",
                          run.replay_batches);
  }
  absl::StrAppendFormat(
      &text, "\n%s\nCPU %.0f %% of %s, device busy %.0f %% (%s)\n",
      PartsText(run), t.cpus > 0 ? 100 * t.share(t.cpu / t.cpus) : 0,
      CountText(static_cast<uint64_t>(t.cpus), "core"), 100 * t.device_busy,
      t.device_busy_source == "nvml" ? "NVML" : "time of the steps' parts");
  if (const std::string others = OtherProgramsText(t); !others.empty()) {
    absl::StrAppend(&text, others, "\n");
  }
  if (const std::string too_short = TooShortText(t); !too_short.empty()) {
    absl::StrAppend(&text, too_short, "\n");
  }
  text += '\n';
  if (findings.empty()) {
    absl::StrAppend(&text, "not clear: no part stands out\n");
  }
  for (size_t i = 0; i < findings.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "bottleneck: " : "then: ", findings[i].text,
                    GainText(findings[i]), "\n");
    for (const std::string& advice : findings[i].advice) {
      absl::StrAppend(&text, "  - ", advice, "\n");
    }
  }
  if (t.share(t.data) >= 0.05 && !run.where.empty()) {
    absl::StrAppend(&text, "\nthe trainer's line of its last epoch: ",
                    run.where.back(), "\n");
  }
  return text;
}

std::string Json(const RunReport& run, const std::vector<Finding>& findings,
                 const Comparison* comparison) {
  Report report;
  report.Add("run", "", absl::string_view(run.path));
  report.AddJson("too_short",
                 TooShortText(run.times).empty() ? "false" : "true");
  report.Add("bottleneck", "",
             absl::string_view(findings.empty() ? "" : findings[0].part));
  std::vector<std::string> parts;
  for (const Finding& finding : findings) {
    Report one;
    one.Add("part", "", absl::string_view(finding.part));
    one.Add("share", "", finding.share, "");
    if (finding.most_gain > 0) {
      one.Add("most_gain", "", finding.most_gain, "");
    }
    one.Add("text", "", absl::string_view(finding.text));
    std::vector<std::string> advice;
    for (const std::string& line : finding.advice) {
      advice.push_back(JsonText(line));
    }
    one.AddJson("advice", absl::StrCat("[", absl::StrJoin(advice, ", "), "]"));
    parts.push_back(one.Json());
  }
  report.AddJson("findings",
                 absl::StrCat("[", absl::StrJoin(parts, ", "), "]"));
  if (comparison != nullptr) {
    Report one;
    const char* result = "not_told";
    if (comparison->result == Comparison::Result::kFaster) result = "faster";
    if (comparison->result == Comparison::Result::kSlower) result = "slower";
    one.Add("result", "", absl::string_view(result));
    one.Add("times_as_fast", "", comparison->times_as_fast, "");
    one.Add("least", "", comparison->least, "");
    one.Add("most", "", comparison->most, "");
    one.Add("text", "", absl::string_view(comparison->text));
    std::vector<std::string> notes;
    for (const std::string& note : comparison->notes) {
      notes.push_back(JsonText(note));
    }
    one.AddJson("notes", absl::StrCat("[", absl::StrJoin(notes, ", "), "]"));
    report.AddJson("comparison", one.Json());
  }
  return report.Json();
}

}  // namespace

absl::Status RunDoctor(absl::Span<const std::string> arguments) {
  std::string run_path;
  std::string before_path;
  bool json = false;
  FlagSet flags(
      {.command = "millrace doctor",
       .summary = "Says what limits a training run, what to change and how "
                  "much faster that can make the run; with --compare also "
                  "whether a change has helped.",
       .examples = {"millrace doctor --run=run.json",
                    "millrace doctor --compare before.json after.json"}});
  flags.Add("run", &run_path, "SUMMARY.json",
            "Summary of the run, which `millrace-train --json` writes");
  flags.Add("compare", &before_path, "BEFORE.json",
            "Summary of a run before the change; `--compare BEFORE AFTER` "
            "names both");
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
  if (run_path.empty()) {
    return UsageError(
        absl::InvalidArgumentError("flag --run=SUMMARY.json is missing; train "
                                   "with --json=SUMMARY.json to get one"));
  }
  MR_ASSIGN_OR_RETURN(const RunReport run, UsageError(ReadRunReport(run_path)));
  const std::vector<Finding> findings = JudgeRun(run);
  Comparison comparison;
  if (!before_path.empty()) {
    MR_ASSIGN_OR_RETURN(const RunReport before,
                        UsageError(ReadRunReport(before_path)));
    comparison = CompareRuns(before, run);
  }
  if (json) {
    std::printf("%s\n",
                Json(run, findings, before_path.empty() ? nullptr : &comparison)
                    .c_str());
    return absl::OkStatus();
  }
  std::fputs(Text(run, findings).c_str(), stdout);
  if (!before_path.empty()) {
    std::printf("\ncompared with %s: %s\n", before_path.c_str(),
                comparison.text.c_str());
    for (const std::string& note : comparison.notes) {
      std::printf("  - %s\n", note.c_str());
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
