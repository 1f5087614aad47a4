#include "trainer/learner.h"

#include <torch/utils.h>

#include "common/status_macros.h"
#include "trainer/fit.h"
#include "trainer/losses/loss_kind.h"
#include "trainer/models/graph_model.h"
#include "trainer/models/model_name.h"
#include "trainer/weights/model_weights.h"

namespace millrace {

absl::StatusOr<Learner> MakeLearner(const TrainerConfig& config,
                                    const BatchReader& training,
                                    const BatchReader* evaluation,
                                    torch::Device device) {
  MR_ASSIGN_OR_RETURN(const ModelName model, ParseModelName(config.model));
  MR_ASSIGN_OR_RETURN(const LossName loss, ParseLossName(config.loss));
  Learner learner;
  // The same weights on every rank, whatever else the generator was used for.
  torch::manual_seed(config.seed);
  MR_ASSIGN_OR_RETURN(learner.model,
                      MakeModel(config.model, training.shape(),
                                training.form().outputs, device));
  learner.model->to(device);
  if (config.channels_last) UseChannelsLast(*learner.model);
  learner.model->train();
  MR_ASSIGN_OR_RETURN(learner.loss, MakeLoss(loss, device));
  if (!config.init_weights.empty()) {
    MR_RETURN_IF_ERROR(LoadWeights(config.init_weights,
                                   config.init_weights_without,
                                   WeightsOf(*learner.model)));
  }
  // The trainer's own models and losses are known to fit what they were made
  // for, but not an evaluation of images of another size.
  const bool foreign = !model.file.empty() || !loss.file.empty();
  const auto check = [&](const BatchReader& reader) {
    return CheckFit(*learner.model, *learner.loss, reader.shape(),
                    reader.form(), loss.kind, config.model, device);
  };
  if (foreign) MR_RETURN_IF_ERROR(check(training));
  if (evaluation != nullptr &&
      (foreign || evaluation->shape() != training.shape())) {
    MR_RETURN_IF_ERROR(check(*evaluation));
  }
  if (config.graph) learner.model = GraphOf(std::move(learner.model));
  return learner;
}

}  // namespace millrace
