// What a run reports at its end, for people and as JSON.

#ifndef MILLRACE_TRAINER_SUMMARY_H_
#define MILLRACE_TRAINER_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/logs/run_times.h"

namespace millrace {

// What became of damaged samples.
struct BadSampleSummary {
  std::string policy = "FAIL";  // of the training's pipeline
  // ZERO: rows of each epoch that were left empty, of all ranks.
  std::vector<uint64_t> empty_rows;
  // The same of each evaluation, by the policy of its own pipeline.
  std::vector<uint64_t> eval_empty_rows;
  // A damaged sample that a server met during the run.
  struct Place {
    std::string dataset;
    std::string shard;   // empty: not known
    int64_t row = -1;    // within the shard; -1: not known
    int64_t sample = 0;  // logical index
    std::string reason;
  };
  // Each once; of each server at most the hundred that it met last.
  std::vector<Place> damaged;
};

struct TrainSummary {
  // "finished"; "stopped" by a signal, or "failed": then with the reason, the
  // whole epochs before, and of other ranks nothing.
  std::string ended = "finished";
  std::string error;  // a sentence; empty: finished
  std::string model;
  std::string dataset;
  std::string device;
  uint32_t world_size = 1;
  uint64_t batch_size = 0;
  uint64_t samples_per_epoch = 0;  // of the plan
  uint64_t parameters = 0;
  uint64_t steps = 0;                 // of the optimiser, in this run
  uint64_t samples = 0;               // trained on, padding not counted
  std::vector<double> epoch_seconds;  // of training, evaluation not counted
  std::vector<double> eval_seconds;
  double samples_per_second = 0;
  // Not 0: the first so many batches were repeated, for the time alone; losses
  // and accuracy mean nothing.
  uint64_t replay_batches = 0;
  double stall_share = 0;  // time waiting for data / time of training
  std::vector<double> rank_stall_shares;  // the same of every rank
  // Time spent on the other ranks (Communicator::Stats) / time of training, of
  // every rank, and bytes that rank 0 summed up with them.
  std::vector<double> rank_allreduce_shares;
  uint64_t allreduce_bytes = 0;
  // Why rank 0 waited, in a line for each epoch.
  std::vector<std::string> where_the_time_went;
  // Of rank 0: of all epochs together, and of each.
  RunTimes times;
  std::vector<RunTimes> epoch_times;
  std::vector<double> loss;  // mean over the epoch's samples
  std::vector<double> eval_loss;
  // After the last epoch; absent: there was no evaluation.
  std::optional<double> eval_accuracy;
  std::optional<double> eval_top5;      // absent with up to five classes, too
  std::optional<double> eval_mean_iou;  // absent when no pixels were judged
  BadSampleSummary bad_samples;
  // Of a gradient scaler, at the end; absent: there was none.
  std::optional<double> loss_scale;
  std::optional<uint64_t> skipped_steps;  // since the very start
  std::string plan_hash;                  // hexadecimal
  std::string fingerprint;
  // What `millrace replay --run` needs beside them: the resolved spec as text.
  std::string endpoint;
  std::string pipeline;
  std::vector<std::string> flags;  // of the command line
};

// One object. Numbers that are no numbers become null.
std::string ToJson(const TrainSummary& summary);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_SUMMARY_H_
