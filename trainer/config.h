// What a training run is asked to do: the program's flags as plain values.

#ifndef MILLRACE_TRAINER_CONFIG_H_
#define MILLRACE_TRAINER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/prefetch/host_loader.h"

namespace millrace {

struct TrainerConfig {
  std::string endpoint;      // host:port[,host:port...] or one DNS name:port
  std::string dataset;       // to train on
  std::string eval_dataset;  // empty: no evaluation
  // Parts of a dataset: FROM:TO in samples or shares (trainer/subset_flag.h).
  // Empty: all of it; only eval_subset: training takes the rest.
  std::string train_subset;
  std::string eval_subset;
  uint64_t subset_seed = 0;  // of the cut
  uint64_t subset_unit = 0;  // neighbours that are cut together; 0: none
  // At most one of each pair; both empty: what the dataset recommends.
  std::string preset;
  std::string pipeline;  // file with a PipelineSpec as text
  std::string eval_preset;
  std::string eval_pipeline;
  // Fields that become tensors, with commas; empty: what the pipeline lists,
  // else all. Of the evaluation as well, unless eval_pipeline is given.
  std::string outputs;

  std::string model = "mlp";           // see models/model.h
  bool graph = false;                  // see models/graph_model.h
  std::string loss = "cross_entropy";  // see losses/loss.h
  // Weights to begin with, and layers of which none are taken; see weights/.
  std::string init_weights;
  std::vector<std::string> init_weights_without;
  // Written after each epoch and at the end; empty: none.
  std::string save_weights;
  // Tensors of a batch; empty: trainer/batch_reader.h says which.
  std::string input;
  std::string target;
  // Of a target that does not say it: a mask, or whole numbers. 0: none given.
  uint64_t classes = 0;
  // Pixels of a target with this value do not count; absent: all do.
  std::optional<int64_t> ignore_value;

  uint64_t epochs = 1;
  uint64_t batch_size = 0;  // global; 0: what the pipeline says, else 64
  // Of the order, the augmentation and the weights. Absent: 0 for the weights,
  // what the pipeline says for the rest.
  std::optional<uint64_t> seed;
  uint64_t max_steps = 0;  // optimiser steps of this run; 0: no limit
  // drop or pad; empty: what the pipeline says, else drop.
  std::string last_batch;

  std::string optimizer = "adam";  // sgd, adam or adamw
  double lr = 1e-3;                // the schedule's highest
  // Absent, here and below: the default of what they belong to; given without
  // that they are refused.
  std::optional<double> momentum;  // sgd; 0.9
  bool nesterov = false;           // sgd
  std::optional<double> beta1;     // adam, adamw; 0.9
  std::optional<double> beta2;     // adam, adamw; 0.999
  std::optional<double> eps;       // adam, adamw; 1e-8
  double weight_decay = 0;
  bool decay_all = false;             // biases and the scales of norms as well
  std::string schedule = "constant";  // constant, step or cosine
  double warmup_epochs = 0;
  std::optional<uint64_t> step_epochs;  // step; 30
  std::optional<double> step_gamma;     // step; 0.1
  std::optional<double> min_lr;         // step, cosine; 0
  double label_smoothing = 0;
  // Batches of one optimiser step.
  uint64_t accumulate = 1;
  double clip_grad_norm = 0;          // 0: not clipped
  double ema = 0;                     // decay of the averaged weights; 0: none
  std::string precision = "float32";  // float32, bfloat16 or float16
  std::optional<double> loss_scale;   // the first; float16; 65536
  bool channels_last = true;

  std::string device = "auto";  // auto, cpu, cuda
  uint32_t device_prefetch = 2;
  bool prepare_ahead = false;
  uint32_t window = 0;     // batches asked for; 0: chosen by the client
  // Shared memory with servers of this machine: off, auto or require.
  std::string same_host = "off";
  // Compare each batch with a digest that its server sends.
  bool verify_payload = HostLoaderOptions().verify_payload;

  // The first so many batches are repeated without waiting for data, to tell
  // what a perfect loader would gain. What is trained means nothing. 0: off.
  uint64_t replay_batches = 0;

  // Endpoints and ranks that do not answer. Ranks that have joined may be
  // waiting for data: they are given data_timeout and a little at least.
  absl::Duration timeout = absl::Seconds(5);
  std::optional<absl::Duration> rank_timeout;  // several ranks; 2 minutes
  // A batch that does not come.
  absl::Duration data_timeout = absl::Minutes(5);
  // Steps that are late; see DataLoader::Options.
  absl::Duration step_timeout = HostLoaderOptions().step_timeout;
  double hedge_share = HostLoaderOptions().hedge_share;
  std::optional<absl::Duration> hedge_floor;  // hedge_share above 0; 20 ms

  // Folder for each rank's audit log (docs/operations.md); empty: none.
  std::string audit_dir;
  // What was said on the command line, for the summary.
  std::vector<std::string> flags;
  std::string json;         // summary file; empty: none
  std::string step_losses;  // file with a line "epoch step loss" each; or empty
  // Written after each epoch, at the end and on failure; empty: none.
  std::string checkpoint;
  uint64_t checkpoint_every = 0;  // and after so many steps; 0: not
  // Checkpoint to go on from; empty: from the start; "auto": `checkpoint` when
  // that file is there, which is what a job that is restarted needs.
  std::string resume;
  // Folder for the batch of a step whose loss is no finite number; empty:
  // beside the checkpoint.
  std::string failed_batch;
  // Steps between lines when not on a terminal, and between TensorBoard's
  // points; 0: none, and one an epoch.
  uint64_t log_every = 100;
  std::string tensorboard;  // folder for event files; empty: none
  std::string profile;      // folder for a trace; empty: none
  // Steps of this run that it shows, counted from 1; 5-9.
  std::optional<std::string> profile_steps;

  // InvalidArgument names the flag.
  absl::Status Validate() const;
};

// "FROM-TO" or one number, from 1; InvalidArgument names --profile_steps.
struct ProfiledSteps {
  uint64_t first = 5;
  uint64_t last = 9;
};
absl::StatusOr<ProfiledSteps> ParseProfileSteps(const std::string& text);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_CONFIG_H_
