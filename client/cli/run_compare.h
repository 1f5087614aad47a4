// CompareRuns says whether a change has made training faster, from the
// summaries of a run before and one after it. It does not claim what the noise
// does not allow: epochs of one run differ, too.
//
// Pure function, safe from any thread.
//
//   puts(CompareRuns(before, after).text.c_str());
//   // "faster: 1.32 times (1.28 to 1.41) ..."
//
// Compared is the time a sample takes, epoch by epoch, so that another batch
// size or a run that was cut short does not matter. Of three epochs or more the
// first is left out: caches fill, memory is allocated. "faster" and "slower"
// mean that the slowest epoch of the one is still faster than the fastest of
// the other; anything else is "no difference that can be told", with the
// figures. So are epochs of both runs that take less than 0.05 s: a pause of
// some milliseconds is a large part of them.

#ifndef MILLRACE_CLIENT_CLI_RUN_COMPARE_H_
#define MILLRACE_CLIENT_CLI_RUN_COMPARE_H_

#include <string>
#include <vector>

#include "client/cli/run_report.h"

namespace millrace {

struct Spread {
  double least = 0;
  double median = 0;
  double most = 0;
  size_t values = 0;
  double shortest = 0;  // of the epochs that count, seconds
};

// Seconds a sample, of the epochs that count.
Spread SecondsPerSample(const RunReport& run);

struct Comparison {
  enum class Result { kFaster, kSlower, kNotTold };
  Result result = Result::kNotTold;
  double times_as_fast = 1;  // after over before, of the medians
  double least = 1;          // of any epoch after over any before
  double most = 1;
  std::string text;  // one sentence
  // What else differs, and what must be known to trust the sentence: another
  // model, another loss, a single epoch.
  std::vector<std::string> notes;
};

Comparison CompareRuns(const RunReport& before, const RunReport& after);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_RUN_COMPARE_H_
