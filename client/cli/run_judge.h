// JudgeRun says what limits a training run, from the times in its summary:
// which part to look at first, the figure behind it, what to change and what
// that can bring at most. It names a part only where the figures show it.
//
// Pure function, safe from any thread.
//
//   for (const Finding& finding : JudgeRun(run)) puts(finding.text.c_str());
//
// The rules, over the time of rank 0's training loop:
//
//   data        the trainer waited for batches 5 % of the time or more; which
//               part of the way was slow is what the servers and the client
//               said (client/prefetch/verdict.h)
//   copy        the device spent half of the time or more copying batches, or
//               waited for copies
//   trainer_cpu the trainer's own CPU: batches are transformed there instead of
//               at the servers for 10 % of the time or more, or, beside a GPU,
//               80 % of its cores are busy
//   allreduce   the ranks waited for one another 10 % of the time or more
//   ranks       another rank waited for data, this one for it
//   compute     forward, backward and optimiser took half of the time or more
//   overhead    none of these: 25 % of the time or more lie between the parts
//   other_programs  programs that are no rank of the run used a quarter of the
//               cores of the trainer's machine or more. What they cost cannot
//               be told. They come before parts with a smaller share; from
//               three quarters on, which leave it next to nothing, also before
//               a model that the CPU computes. Servers on that machine are
//               among them: then never before the wait for these servers. Of
//               less than half a second nothing is said of them
//
// What the device waits for comes first, most time first; then what it does.
// Shares are of disjoint parts of the time, but for copies that are made beside
// the step, and for shares of cores.
// `most_gain` is Amdahl's bound: with the part's time gone altogether the run
// would be 1 / (1 - share) times as fast, never more. It is given for shares of
// 75 % at most: beyond, the bound follows from the small rest, which is
// measured badly and of which nobody knows what it costs when it is all there
// is.
//
// Every flag and value in an advice is one that the programs take
// (tests/integration/advice_test.cc tries them).

#ifndef MILLRACE_CLIENT_CLI_RUN_JUDGE_H_
#define MILLRACE_CLIENT_CLI_RUN_JUDGE_H_

#include <string>
#include <vector>

#include "client/cli/run_report.h"

namespace millrace {

struct Finding {
  // "storage", "decoding", "augmenting", "servers", "network",
  // "shared_memory", "server_memory", "window", "no_answer" (no server did),
  // "data" (waited, why is not clear), "copy",
  // "trainer_cpu", "allreduce", "ranks", "compute", "overhead",
  // "other_programs" (share: of the cores).
  std::string part;
  double share = 0;  // of the time, 0 to 1
  // Times as fast, at most. 0: no bound is told; 1: what it costs is not known.
  double most_gain = 1;
  std::string text;  // one sentence with the figure
  std::vector<std::string> advice;
};

// "too short to judge: ...", of a run of fewer than 10 steps or less than a
// second: start and end weigh too much in its figures. Empty of a longer one.
std::string TooShortText(const PartTimes& times);

// "other programs on the trainer's machine use 1.3 of its 2 cores": never more
// cores than this process leaves. Empty below a tenth of a core, where the run
// has not measured it, and of less than half a second: the system counts the
// time of programs in ticks of 10 ms.
std::string OtherProgramsText(const PartTimes& times);

// The first is the bottleneck. Empty: the figures name nothing.
std::vector<Finding> JudgeRun(const RunReport& run);

// "1234"; of a rate below 100 three digits that count: "0.417".
std::string RateText(double rate);

// " (without it the run would be at most 1.75 times as fast)", or that no bound
// can be told; empty where there is nothing to say.
std::string GainText(const Finding& finding);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_RUN_JUDGE_H_
