// A checkpoint holds everything that a run needs to go on: weights, the state
// of the optimiser and of what else changes with the steps (gradient scaler,
// averaged weights), the position in the data, and what must not have changed
// (plan hash and fingerprint, checked by the client when it opens). The
// schedule's place follows from the position.
//
// The file is written beside its place and renamed: there is always a whole one
// or none. It is an archive of libtorch with the entries format (2),
// model_name, optimizer_name, classes, accumulate, epoch, step, steps,
// plan_hash (hexadecimal), fingerprint, pipeline (the resolved spec as protobuf
// text; not in files of earlier versions), parts (names, separated by commas),
// model (named weights and buffers) and an archive of named tensors for each
// part: optimizer always, scaler and average where the run has them. libtorch's
// writer gives each entry of the archive a CRC-32, and its reader ignores them:
// they are compared here before anything is read, so that no flipped bit
// becomes a weight.
//
// Functions; one thread writes a path. The tensors are the caller's.
//
//   MR_RETURN_IF_ERROR(WriteCheckpoint(path, info, model, updater.State()));
//   MR_ASSIGN_OR_RETURN(CheckpointInfo info, ReadCheckpointInfo(path));
//   MR_RETURN_IF_ERROR(RestoreCheckpoint(path, model, updater.State()));

#ifndef MILLRACE_TRAINER_CHECKPOINT_H_
#define MILLRACE_TRAINER_CHECKPOINT_H_

#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/prefetch/host_loader.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "trainer/optim/named_tensors.h"

namespace millrace {

struct CheckpointInfo {
  std::string model;      // --model
  std::string optimizer;  // --optimizer
  int64_t classes = 0;
  uint64_t accumulate = 1;  // --accumulate
  Position position;        // the next step to train; starts a group of batches
  uint64_t steps = 0;       // optimiser steps so far
  std::string plan_hash;    // bytes
  std::string fingerprint;
  // Resolved; nothing in a file of an earlier version.
  std::optional<PipelineSpec> pipeline;
  std::vector<std::string> parts;  // filled in by reading
};

// FailedPrecondition: a value is no finite number; the file at `path` is kept.
absl::Status WriteCheckpoint(const std::string& path,
                             const CheckpointInfo& info,
                             const torch::nn::Module& model,
                             const NamedParts& parts);

// What is known before there is a model. DataLoss: no checkpoint, or a damaged
// one; names the entry. FailedPrecondition: one of another version.
// InvalidArgument: a folder.
absl::StatusOr<CheckpointInfo> ReadCheckpointInfo(const std::string& path);

// Weights and the tensors of `parts`, in place: each keeps its device and its
// layout, whatever they were when the file was written. Parts that the file
// does not hold stay as they are. Errors: as those of ReadCheckpointInfo(); the
// model may then have some of the values.
absl::Status RestoreCheckpoint(const std::string& path,
                               torch::nn::Module& model,
                               const NamedParts& parts);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_CHECKPOINT_H_
