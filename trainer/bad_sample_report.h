// Reports the damaged samples of a run: which samples the data servers found,
// what happens to their rows, and, when a damaged sample ends the run, what to
// do.
//
// What it is not: it finds no damaged sample itself. Batches count empty rows;
// the servers name the samples (bad_sample_watch.h).
//
// One thread; owns a BadSampleWatch when a policy is not FAIL.
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

namespace millrace::trainer {

class BadSampleReport {
 public:
  struct Options {
    std::string endpoint;
    uint32_t rank = 0;  // only rank 0 asks the servers
  };

  // Asks the servers at once when a policy is not FAIL: construct it before the
  // loaders open.
  BadSampleReport(const Options& options, const RunSpecs& specs);

  // After an epoch of `samples` samples, of which this rank had `local_valid`
  // valid rows: counts the rows that ZERO left empty and prints a line. A
  // collective call with ZERO.
  absl::Status EndEpoch(uint64_t samples, uint64_t local_valid,
                        ddp::Communicator& ranks, Progress& progress);

  // The same after an evaluation.
  void AddEvaluation(uint64_t empty_rows) {
    summary_.eval_empty_rows.push_back(empty_rows);
  }

  // With all damaged samples that the servers found.
  diagnosis::BadSampleSummary Finish();

 private:
  const BadSamplePolicy::Action policy_;   // of training
  std::unique_ptr<BadSampleWatch> watch_;  // null: nothing to watch
  diagnosis::BadSampleSummary summary_;
};

// `error` of a loader over `spec`. When a damaged sample is the reason, adds
// how to find all damaged samples and how to train without them. `flag` is the
// flag that names the pipeline's file: "--pipeline".
absl::Status WithBadSampleAdvice(const absl::Status& error,
                                 const PipelineSpec& spec,
                                 absl::string_view flag);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BAD_SAMPLE_REPORT_H_
