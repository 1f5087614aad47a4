// Learner is the model that the flags name, with its weights and on its device,
// and the loss. MakeLearner() checks that they fit the data, before the first
// step.
//
//   MR_ASSIGN_OR_RETURN(Learner learner,
//                       MakeLearner(config, reader, nullptr, torch::kCPU));

#ifndef MILLRACE_TRAINER_LEARNER_H_
#define MILLRACE_TRAINER_LEARNER_H_

#include <torch/types.h>

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/batch_reader.h"
#include "trainer/config.h"
#include "trainer/losses/loss.h"
#include "trainer/models/model.h"

namespace millrace::trainer {

struct Learner {
  std::shared_ptr<models::Classifier> model;  // in training mode
  std::unique_ptr<losses::Loss> loss;
};

// `evaluation`: the reader of the evaluation's data; null: none. The first
// weights depend only on config.seed or on config.init_weights. libtorch's
// exceptions pass.
absl::StatusOr<Learner> MakeLearner(const TrainerConfig& config,
                                    const BatchReader& training,
                                    const BatchReader* evaluation,
                                    torch::Device device);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LEARNER_H_
