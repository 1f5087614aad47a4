// A checkpoint holds everything that a run needs to go on: weights, the
// optimiser's state, the position in the data, and what must not have changed
// (plan hash and fingerprint, checked by the client when it opens).
//
// The file is written beside its place and renamed: there is always a whole one
// or none. It is an archive of libtorch with the entries format (1),
// model_name, optimizer_name, classes, epoch, step, steps, plan_hash
// (hexadecimal), fingerprint, model (named weights and buffers) and optimizer.

#ifndef MILLRACE_TRAINER_CHECKPOINT_H_
#define MILLRACE_TRAINER_CHECKPOINT_H_

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/prefetch/host_loader.h"

namespace millrace {

struct CheckpointInfo {
  std::string model;      // --model
  std::string optimizer;  // --optimizer
  int64_t classes = 0;
  Position position;      // the next step to train
  uint64_t steps = 0;     // optimiser steps so far
  std::string plan_hash;  // bytes
  std::string fingerprint;
};

// FailedPrecondition: a value is no finite number; the file at `path` is kept.
absl::Status WriteCheckpoint(const std::string& path,
                             const CheckpointInfo& info,
                             const torch::nn::Module& model,
                             const torch::optim::Optimizer& optimizer);

// What is known before there is a model. DataLoss: no checkpoint, or a damaged
// one.
absl::StatusOr<CheckpointInfo> ReadCheckpointInfo(const std::string& path);

// Weights and optimiser state, in place and on the model's device, whatever
// device they were written on. The optimiser's options (learning rate and so
// on) stay what they are.
absl::Status RestoreCheckpoint(const std::string& path,
                               torch::nn::Module& model,
                               torch::optim::Optimizer& optimizer);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_CHECKPOINT_H_
