// RunSummary is what a training run reports at its end: millrace-train writes
// it with --json, `millrace doctor`, `millrace replay --run` and people read
// it.
//
// It is not a log: an audit log holds the steps (client/audit/audit_log.h).
//
// One list of keys (run_summary.cc) serves ToJson() and ParseRunSummary(). A
// key that is missing in the file, or holds another type, keeps its default
// here, so that summaries of earlier versions can be read.
//
// Plain data and pure functions; ReadRunSummary() reads a file.
//
//   MR_ASSIGN_OR_RETURN(RunSummary run, ReadRunSummary("run.json"));
//   for (const Finding& finding : JudgeRun(run)) ...

#ifndef MILLRACE_CLIENT_DIAGNOSIS_RUN_SUMMARY_H_
#define MILLRACE_CLIENT_DIAGNOSIS_RUN_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/diagnosis/run_times.h"

namespace millrace::diagnosis {

// What became of damaged samples.
struct BadSampleSummary {
  std::string policy = "FAIL";  // of the training's pipeline
  // ZERO: empty rows of each epoch, of all ranks.
  std::vector<uint64_t> empty_rows;
  // The same of each evaluation, by the policy of its own pipeline.
  std::vector<uint64_t> eval_empty_rows;
  // A damaged sample that a server met during the run.
  struct Place {
    std::string dataset;
    std::string shard;   // empty: unknown
    int64_t row = -1;    // within the shard; -1: unknown
    int64_t sample = 0;  // logical index
    std::string reason;
  };
  // Each once; the last 100 of each server at most.
  std::vector<Place> damaged;
};

struct RunSummary {
  // "finished"; "stopped" by a signal, or "failed". Of a run that did not
  // finish, the summary holds the whole epochs before the end, and nothing of
  // other ranks. `times` and `samples` also count the unfinished epoch.
  std::string ended = "finished";
  std::optional<std::string> error;  // a sentence; absent: finished
  // Seconds of the wait for a batch in which the run ended: the batch timed
  // out, or a signal came while no server answered. 0: it did not end so.
  double final_wait_seconds = 0;
  std::string model;
  std::string dataset;
  std::string device;  // "cpu", "cuda:0"
  uint32_t world_size = 1;
  uint64_t batch_size = 0;         // global
  uint64_t samples_per_epoch = 0;  // of the plan; 0: unknown
  uint64_t parameters = 0;
  uint64_t steps = 0;    // of the optimiser, in this run
  uint64_t samples = 0;  // trained on, without padding
  // Above 0: the run repeated its first batches (this number of them) to
  // measure the rate; losses and accuracy mean nothing.
  uint64_t replay_batches = 0;
  std::vector<double> epoch_seconds;  // of training, without evaluation
  std::vector<double> eval_seconds;
  double samples_per_second = 0;
  double stall_share = 0;  // time waiting for data / time of training
  std::vector<double> rank_stall_shares;  // the same of every rank
  // Of every rank: time spent on other ranks (Communicator::Stats) / time of
  // training.
  std::vector<double> rank_allreduce_shares;
  uint64_t allreduce_bytes = 0;  // that rank 0 summed up with the other ranks
  // Why rank 0 waited, in a line for each epoch.
  std::vector<std::string> where_the_time_went;
  // Of rank 0: of all epochs together, and of each.
  RunTimes times;
  std::vector<RunTimes> epoch_times;
  std::vector<double> loss;  // mean over the epoch's samples
  std::vector<double> eval_loss;
  // After the last epoch; absent without an evaluation.
  std::optional<double> eval_accuracy;
  std::optional<double> eval_top5;      // absent with up to five classes, too
  std::optional<double> eval_mean_iou;  // absent when no pixels were judged
  BadSampleSummary bad_samples;
  // Of a gradient scaler, at the end; absent without one.
  std::optional<double> loss_scale;
  std::optional<uint64_t> skipped_steps;  // since the start of the first run
  std::string plan_hash;                  // hexadecimal
  std::string fingerprint;
  std::string endpoint;
  std::string pipeline;            // the resolved spec as text
  std::vector<std::string> flags;  // of the command line

  bool on_cpu() const { return device == "cpu"; }
  // The trainer copied and transformed batches within its wait for data, not
  // in parallel with it.
  bool copies_in_wait() const { return on_cpu() && !has_flag("prepare_ahead"); }
  // Seconds that the trainer waited for servers.
  double waited_for_servers() const;
  // All endpoints are on the trainer's machine.
  bool servers_are_local() const;
  // The command line has the flag `name`, with any value.
  bool has_flag(absl::string_view name) const;
};

// One object. Numbers that are not finite are null.
std::string ToJson(const RunSummary& summary);
std::string ToJson(const RunTimes& times);  // one line

// `json` may hold any bytes. Every number of the result is in the range of its
// type, and the numbers of RunTimes are finite and not negative.
// InvalidArgument: `json`, which was read from `path`, is no JSON object.
absl::StatusOr<RunSummary> ParseRunSummary(const std::string& json,
                                           absl::string_view path);
// Also NotFound and others: the file cannot be read.
absl::StatusOr<RunSummary> ReadRunSummary(const std::string& path);

}  // namespace millrace::diagnosis

#endif  // MILLRACE_CLIENT_DIAGNOSIS_RUN_SUMMARY_H_
