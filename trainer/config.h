// TrainerConfig holds the flags of millrace-train as plain values.
//
// What it is not: it parses no command line (flags.h), and knows no launcher.
//
// Plain data. ParseProfileSteps() is a pure function.
//
//   TrainerConfig config;
//   config.loader.endpoint = "data-1:7001";
//   config.dataset = "photos";
//   MR_RETURN_IF_ERROR(config.Validate());

#ifndef MILLRACE_TRAINER_CONFIG_H_
#define MILLRACE_TRAINER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/prefetch/loader_options.h"

namespace millrace::trainer {

struct TrainerConfig {
  // How batches are received (client/flags/loader_flags.h); without spec, rank,
  // start and epochs.
  LoaderOptions loader;
  std::string dataset;       // to train on
  std::string eval_dataset;  // empty: no evaluation
  // Parts of a dataset: FROM:TO in samples or shares (trainer/subset_flag.h).
  // Empty: all of it; only eval_subset: training takes the rest.
  std::string train_subset;
  std::string eval_subset;
  uint64_t subset_seed = 0;  // of the random order that is cut
  uint64_t subset_unit = 0;  // neighbours that stay in one part; 0: none
  // At most one of each pair; both empty: the preset that the dataset
  // recommends.
  std::string preset;
  std::string pipeline;  // file with a PipelineSpec as text
  std::string eval_preset;
  std::string eval_pipeline;
  // Fields that become tensors, separated by commas; empty: the fields that the
  // pipeline lists, or all. Also for the evaluation, unless eval_pipeline is
  // given.
  std::string outputs;

  std::string model = "mlp";           // see models/model.h
  bool graph = false;                  // see models/graph_model.h
  std::string loss = "cross_entropy";  // see losses/loss.h
  // File of the initial weights, and layers that it does not set; see weights/.
  std::string init_weights;
  std::vector<std::string> init_weights_without;
  // Weights file, written after each epoch and at the end; empty: none.
  std::string save_weights;
  // Tensors of a batch; empty: trainer/batch_reader.h chooses.
  std::string input;
  std::string target;
  // Number of classes of a target whose data do not give it, such as a mask or
  // whole numbers. 0: from the data.
  uint64_t classes = 0;
  // Pixels of a target with this value are ignored; absent: none.
  std::optional<int64_t> ignore_value;

  uint64_t epochs = 1;
  uint64_t batch_size = 0;  // global; 0: the pipeline's, or 64
  // Seed of the order, the augmentation and the weights. Absent: 0 for the
  // weights, the pipeline's seed for the rest.
  std::optional<uint64_t> seed;
  uint64_t max_steps = 0;  // optimiser steps of this run; 0: no limit
  // drop or pad; empty: the pipeline's, or drop.
  std::string last_batch;

  std::string optimizer = "adam";  // sgd, adam or adamw
  double lr = 1e-3;                // the maximum of the schedule
  // Here and below. Absent: the default in the comment. Validate() refuses a
  // value without the optimiser or schedule that it belongs to.
  std::optional<double> momentum;  // sgd; 0.9
  bool nesterov = false;           // sgd
  std::optional<double> beta1;     // adam, adamw; 0.9
  std::optional<double> beta2;     // adam, adamw; 0.999
  std::optional<double> eps;       // adam, adamw; 1e-8
  double weight_decay = 0;
  bool decay_all = false;             // also biases and the scales of norms
  std::string schedule = "constant";  // constant, step or cosine
  double warmup_epochs = 0;
  std::optional<uint64_t> step_epochs;  // step; 30
  std::optional<double> step_gamma;     // step; 0.1
  std::optional<double> min_lr;         // step, cosine; 0
  double label_smoothing = 0;
  // Number of batches of one optimiser step.
  uint64_t accumulate = 1;
  double clip_grad_norm = 0;          // 0: not clipped
  double ema = 0;                     // decay of averaged weights; 0: none
  std::string precision = "float32";  // float32, bfloat16 or float16
  std::optional<double> loss_scale;   // initial; float16; 65536
  bool channels_last = true;

  std::string device = "auto";  // auto, cpu, cuda
  uint32_t device_prefetch = 2;
  bool prepare_ahead = false;

  // Number of first batches that the run repeats without waiting for data, to
  // measure what a perfect loader would gain. The model is meaningless. 0: off.
  uint64_t repeat_batches = 0;

  // Time after which a rank that does not answer is given up; absent: 2
  // minutes. A rank that waits for data gets loader.next_timeout and a margin
  // at least.
  std::optional<absl::Duration> rank_timeout;

  // Folder for each rank's audit log (docs/operations.md); empty: none.
  std::string audit_dir;
  // The arguments of the command line, for the summary.
  std::vector<std::string> flags;
  std::string json;  // summary file; empty: none
  // File with a line "epoch step loss" for each step; empty: none.
  std::string step_losses;
  // Written after each epoch, at the end and on failure; empty: none.
  std::string checkpoint;
  // Optimiser steps between further writes of the checkpoint; 0: none.
  uint64_t checkpoint_every = 0;
  // Checkpoint to continue from; empty: begin at the start; "auto":
  // `checkpoint` if that file exists, for jobs that are restarted.
  std::string resume;
  // Folder for the batch of a step whose loss is not finite; empty: beside the
  // checkpoint.
  std::string failed_batch;
  // Steps between lines when the output is not a terminal, and between points
  // in TensorBoard; 0: no lines, and one point for each epoch.
  uint64_t log_every = 100;
  std::string tensorboard;  // folder for event files; empty: none
  std::string profile;      // folder for a trace; empty: none
  // Steps of this run in the trace, counted from 1; 5-9.
  std::optional<std::string> profile_steps;

  // InvalidArgument names the flag.
  absl::Status Validate() const;

  // A rank's audit log; empty without --audit_dir.
  std::string AuditFile(uint32_t rank) const;
};

// "FROM-TO" or one number, from 1; InvalidArgument names --profile_steps.
struct ProfiledSteps {
  uint64_t first = 5;
  uint64_t last = 9;
};
absl::StatusOr<ProfiledSteps> ParseProfileSteps(const std::string& text);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_CONFIG_H_
