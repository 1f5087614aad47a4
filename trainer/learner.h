// What learns: the model that the flags name, with its weights, on its device,
// and the loss. Whether they fit the data is found here, before the first step.
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

namespace millrace {

struct Learner {
  std::shared_ptr<Classifier> model;  // in training mode
  std::unique_ptr<Loss> loss;
};

// `evaluation`: of the data that the model is judged by; null: none. The first
// weights follow from config.seed alone, or from config.init_weights.
// libtorch's exceptions pass.
absl::StatusOr<Learner> MakeLearner(const TrainerConfig& config,
                                    const BatchReader& training,
                                    const BatchReader* evaluation,
                                    torch::Device device);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LEARNER_H_
