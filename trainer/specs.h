// The pipelines of a run: the specs that it requests from the data servers for
// training and for evaluation.

#ifndef MILLRACE_TRAINER_SPECS_H_
#define MILLRACE_TRAINER_SPECS_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "trainer/config.h"

namespace millrace::trainer {

struct RunSpecs {
  PipelineSpec train;
  std::optional<PipelineSpec> eval;  // absent: no evaluation
  std::string eval_name;             // name of its data, for people
  // Origin of each, for people: "--preset=mnist", "the preset imagenet_eval,
  // which the dataset photos recommends".
  std::string train_from;
  std::string eval_from;
  // The evaluation may use samples of the training: a sentence for the log.
  // Empty: it uses none, or other content: datasets of two names with one
  // fingerprint are the same.
  std::string shared_samples;
};

// The servers' description of a dataset.
using DescribeFunction =
    std::function<absl::StatusOr<DatasetInfo>(const std::string& dataset)>;

// Without --preset, the dataset's recommended preset is used; without a
// recommendation, samples are taken as stored. Flags override dataset, subset,
// batch size, seed and last batch of a pipeline file. The evaluation uses the
// batch size of training and the logical order, every sample once. Without a
// dataset of its own it uses a part of the training's dataset, which training
// then leaves out.
absl::StatusOr<RunSpecs> MakeSpecs(const TrainerConfig& config,
                                   const DescribeFunction& describe);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SPECS_H_
