// What a run says of damaged samples: which ones the data servers meet, what
// becomes of their rows, and, where a damaged sample ends the run, what to do.
//
// What it is not: it finds no damaged sample itself. Batches count empty rows;
// the places come from the servers (bad_sample_watch.h).
//
// One thread; owns a BadSampleWatch where there is something to watch.
//
//   BadSampleReport report({.endpoint = ..., .rank = 0}, specs);
//   ... an epoch ...
//   MR_RETURN_IF_ERROR(report.EndEpoch(samples, local_valid, ranks, progress));
//   summary.bad_samples = report.Finish();

#ifndef MILLRACE_TRAINER_BAD_SAMPLE_REPORT_H_
#define MILLRACE_TRAINER_BAD_SAMPLE_REPORT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/diagnosis/run_summary.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "trainer/bad_sample_watch.h"
#include "trainer/ddp/communicator.h"
#include "trainer/progress.h"
#include "trainer/specs.h"

namespace millrace {

class BadSampleReport {
 public:
  struct Options {
    std::string endpoint;
    uint32_t rank = 0;  // rank 0 alone asks the servers
  };

  // Asks the servers at once where a policy is not FAIL: make it before the
  // loaders open.
  BadSampleReport(const Options& options, const RunSpecs& specs);

  // Of an epoch of `samples` samples, of which this rank had `local_valid`
  // valid rows: counts those that ZERO left empty and prints a line. A
  // collective call under ZERO.
  absl::Status EndEpoch(uint64_t samples, uint64_t local_valid,
                        Communicator& ranks, Progress& progress);

  // Of an evaluation.
  void AddEvaluation(uint64_t empty_rows) {
    summary_.eval_empty_rows.push_back(empty_rows);
  }

  // With all damaged samples that were met.
  BadSampleSummary Finish();

 private:
  const BadSamplePolicy::Action policy_;   // of training
  std::unique_ptr<BadSampleWatch> watch_;  // null: nothing to watch
  BadSampleSummary summary_;
};

// `error` of a loader over `spec`; where a damaged sample is the reason, with
// how to find all of them and how to train without. `flag` is the one that
// gives the pipeline as a file: "--pipeline".
absl::Status WithBadSampleAdvice(const absl::Status& error,
                                 const PipelineSpec& spec,
                                 absl::string_view flag);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_BAD_SAMPLE_REPORT_H_
