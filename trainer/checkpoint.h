// A checkpoint holds everything that a run needs to resume: weights, the state
// of the optimiser and of other parts that change with the steps (gradient
// scaler, averaged weights), the position in the data, and the plan's hash and
// fingerprint, which the client compares when it opens. The schedule's state
// follows from the position.
//
// The file is written beside its final path and renamed, so the path holds a
// whole file or none. It is an archive of libtorch with the entries format (2),
// model_name, optimizer_name, classes, accumulate, epoch, step, steps,
// plan_hash (hexadecimal), fingerprint, pipeline (the resolved spec as protobuf
// text; absent in files of earlier versions), parts (names, separated by
// commas), model (named weights and buffers) and an archive of named tensors
// for each part: optimizer always, scaler and average when the run has them.
// libtorch's writer gives each entry of the archive a CRC-32, and its reader
// ignores it. This reader compares all CRCs before anything is read, so that no
// flipped bit becomes a weight.
//
// Functions; one thread writes a path. The caller owns the tensors.
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

namespace millrace::trainer {

struct CheckpointInfo {
  std::string model;      // --model
  std::string optimizer;  // --optimizer
  int64_t classes = 0;
  uint64_t accumulate = 1;  // --accumulate
  Position position;  // the next step to train; the first of a group of batches
  uint64_t steps = 0;     // optimiser steps so far
  std::string plan_hash;  // bytes
  std::string fingerprint;
  // Resolved; absent in a file of an earlier version.
  std::optional<PipelineSpec> pipeline;
  std::vector<std::string> parts;  // set by reading
};

// FailedPrecondition: a value is NaN or infinite; the file at `path` is kept.
absl::Status WriteCheckpoint(const std::string& path,
                             const CheckpointInfo& info,
                             const torch::nn::Module& model,
                             const optim::NamedParts& parts);

// Reads what is needed before the model exists. DataLoss: no checkpoint, or a
// damaged one; the message names the entry. FailedPrecondition: another
// version. InvalidArgument: a folder.
absl::StatusOr<CheckpointInfo> ReadCheckpointInfo(const std::string& path);

// Copies weights and the tensors of `parts` in place: each keeps its device and
// layout. Parts that the file does not hold keep their values. Errors: as
// ReadCheckpointInfo(); the model may then have some of the file's values.
absl::Status RestoreCheckpoint(const std::string& path,
                               torch::nn::Module& model,
                               const optim::NamedParts& parts);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_CHECKPOINT_H_
