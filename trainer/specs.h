// The pipelines of a run: what is asked of the data servers for training and
// for evaluation.

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

namespace millrace {

struct RunSpecs {
  PipelineSpec train;
  std::optional<PipelineSpec> eval;  // absent: no evaluation
  std::string eval_name;             // of its data, for people
  // Where each comes from, for people: "--preset=mnist", "the preset
  // imagenet_eval, which the dataset photos recommends".
  std::string train_from;
  std::string eval_from;
  // The evaluation may see samples of the training: a sentence for the log.
  // Empty: the two share none, or are of other datasets.
  std::string shared_samples;
};

// What the servers say of a dataset.
using DescribeFunction =
    std::function<absl::StatusOr<DatasetInfo>(const std::string& dataset)>;

// Presets that are not given are the datasets' own; of a dataset that
// recommends none the samples are taken as they are stored. Of a pipeline file,
// the flags that are given replace dataset, subset, batch size, seed and last
// batch. Evaluation uses the batch size of training, in logical order, every
// sample once; without a dataset of its own it is of a part of the training's,
// and then training leaves that part out.
absl::StatusOr<RunSpecs> MakeSpecs(const TrainerConfig& config,
                                   const DescribeFunction& describe);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_SPECS_H_
