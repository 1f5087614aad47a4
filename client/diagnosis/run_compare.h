// CompareRuns says whether a change made training faster, from the summaries of
// a run before and a run after the change. It claims no more than the noise
// allows: the epochs of one run differ, too.
//
// Pure functions, safe from any thread.
//
//   puts(CompareRuns(before, after).text.c_str());
//   // "the change helped: 1.32 times as fast (1.28 to 1.41 over the ..."
//
// The compared figure is the time per sample of each epoch, so that another
// batch size or a run that was stopped early does not matter. With three epochs
// or more, the first is not counted: caches fill, memory is allocated. "faster"
// means that the slowest epoch after the change is faster than the fastest
// epoch before; "slower" is the opposite. Everything else is "no significant
// difference", with the figures, and so are epochs of less than 0.05 s in both
// runs: a pause of some milliseconds is a large part of them.

#ifndef MILLRACE_CLIENT_DIAGNOSIS_RUN_COMPARE_H_
#define MILLRACE_CLIENT_DIAGNOSIS_RUN_COMPARE_H_

#include <string>
#include <vector>

#include "client/diagnosis/run_summary.h"

namespace millrace::diagnosis {

// Seconds per sample, over the epochs that count.
struct EpochSpread {
  double min = 0;
  double median = 0;
  double max = 0;
  size_t epochs = 0;
  double shortest = 0;  // epoch, seconds
};

EpochSpread SecondsPerSample(const RunSummary& run);

struct Comparison {
  enum class Result { kFaster, kSlower, kNotTold };
  Result result = Result::kNotTold;
  double times_as_fast = 1;  // after / before, of the medians
  double min = 1;            // of any epoch after / any epoch before
  double max = 1;
  std::string text;  // one sentence
  // What else differs, and what limits the sentence: another loss, a single
  // epoch.
  std::vector<std::string> notes;
};

Comparison CompareRuns(const RunSummary& before, const RunSummary& after);

}  // namespace millrace::diagnosis

#endif  // MILLRACE_CLIENT_DIAGNOSIS_RUN_COMPARE_H_
