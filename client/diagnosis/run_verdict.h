// JudgeRun says what limits a training run, from the times in its summary: the
// part to look at first, the figure that shows it, what to change, and the
// upper bound of the gain. It names a part only where the figures show it.
//
// It does not explain a wait for data by itself: it takes the WaitCause that
// the trainer found while it ran (client/diagnosis/wait_verdict.h).
//
// Pure functions, safe from any thread.
//
//   for (const Finding& finding : JudgeRun(run)) puts(finding.text.c_str());
//
// The rules, over the time of rank 0's training loop:
//
//   data        the trainer waited for batches 5 % of the time or more; the
//               WaitCause gives the part: storage, decoding, network, ...
//   start       the same, but in the start of the run (run_times.h), and less
//               than 5 % of the time after it. It comes after what the device
//               does
//   no_answer   also: the run ended in a wait for a batch. It comes first
//   copy        the device copied batches for half of the time or more, or the
//               trainer waited for copies
//   trainer_cpu the trainer's own CPU: it transforms batches for 10 % of the
//               time or more or, on a machine with a GPU, 80 % of its cores are
//               busy
//   allreduce   the ranks waited for each other 10 % of the time or more
//   ranks       another rank waited for data, and this rank waited for it
//   compute     forward, backward and optimiser took half of the time or more
//   overhead    25 % of the time or more is in none of these parts
//   other_programs
//               programs that are no rank of the run used a quarter of the
//               cores of the trainer's machine or more; their cost is unknown.
//               They come before parts with a smaller share. From three
//               quarters of the cores on, they also come before a model that
//               the CPU computes. Servers on that machine are among these
//               programs, so they never come before the wait for these servers.
//               A run of less than half a second is not judged for them
//
// The order: what the device waits for, longest first; then what the device
// does. Shares are of disjoint parts of the time, except for copies in parallel
// with the step and for shares of cores.
//
// `max_gain` is Amdahl's bound: without the part, the run is at most
// 1 / (1 - share) times as fast. It is given for shares up to 75 %. Above, the
// bound depends on a small rest whose time is measured badly.
//
// Every flag and value in an advice exists (tests/integration/advice_test.cc
// tries them).

#ifndef MILLRACE_CLIENT_DIAGNOSIS_RUN_VERDICT_H_
#define MILLRACE_CLIENT_DIAGNOSIS_RUN_VERDICT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/diagnosis/run_summary.h"

namespace millrace::diagnosis {

enum class RunPart {
  // Waits for data, by their cause.
  kStorage,
  kDecoding,
  kAugmenting,
  kServers,  // reading, decoding and augmenting together
  kNetwork,
  kSharedMemory,
  kServerMemory,
  kWindow,
  kNoAnswer,
  kStart,  // for the first batches
  kData,   // cause not clear
  // Others.
  kCopy,
  kTrainerCpu,
  kAllreduce,
  kRanks,
  kCompute,
  kOverhead,
  kOtherPrograms,  // share: of the cores
};

// The machine-readable name: "storage", "server_memory", "trainer_cpu", ...
absl::string_view NameOf(RunPart part);

struct Finding {
  RunPart part = RunPart::kData;
  double share = 0;  // of the time, 0 to 1
  // Upper bound of the speed-up. 0: no bound is given; 1: the cost is unknown.
  double max_gain = 1;
  std::string text;                 // one sentence with the figure
  std::vector<std::string> advice;  // empty for a run that is too short
};

// "the run failed: no batch within 12s ..."; empty: the run finished.
std::string EndText(const RunSummary& run);

// InvalidArgument: the summary of the file `path` has no time of a step, nor of
// a wait that ended the run.
absl::Status CheckHasSteps(const RunSummary& run, absl::string_view path);

// A run of fewer than 10 steps or less than a second: start and end weigh too
// much in its figures.
bool IsTooShort(const RunTimes& times);

// "too short to judge: ..."; empty for a longer run.
std::string TooShortText(const RunTimes& times);

// "other programs on the trainer's machine use 1.3 of its 2 cores": never more
// cores than this process leaves. Empty below a tenth of a core, where the run
// did not measure it, and for less than half a second: the system counts the
// time of programs in ticks of 10 ms.
std::string OtherProgramsText(const RunTimes& times);

// The first is the bottleneck. Empty: the figures name nothing.
std::vector<Finding> JudgeRun(const RunSummary& run);

// " (without it, the run is at most 1.75 times as fast)", or that no bound can
// be given; empty where there is nothing to say.
std::string GainText(const Finding& finding);

}  // namespace millrace::diagnosis

#endif  // MILLRACE_CLIENT_DIAGNOSIS_RUN_VERDICT_H_
