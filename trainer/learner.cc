#include "trainer/learner.h"

#include <torch/utils.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "trainer/checkpoint.h"
#include "trainer/fit.h"
#include "trainer/losses/loss_kind.h"
#include "trainer/models/graph_model.h"
#include "trainer/models/model_name.h"
#include "trainer/weights/model_weights.h"

namespace millrace::trainer {

absl::StatusOr<Learner> MakeLearner(const TrainerConfig& config,
                                    const BatchReader& training,
                                    const BatchReader* evaluation,
                                    torch::Device device) {
  MR_ASSIGN_OR_RETURN(const models::ModelName model,
                      models::ParseModelName(config.model));
  MR_ASSIGN_OR_RETURN(const losses::LossName loss,
                      losses::ParseLossName(config.loss));
  const losses::TargetForm& form = training.form();
  if (model.of_pixels && !form.of_pixels()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model=", model.name,
                     " outputs values for each pixel, but the target has no "
                     "values for each pixel; name a mask or an image with "
                     "--target, or choose another model"));
  }
  if (model.of_pixels && form.channels == 0) {
    return absl::InvalidArgumentError(
        "the data do not declare the number of classes of their masks; give "
        "--classes=N");
  }
  if (!model.of_pixels && model.file.empty() &&
      form.kind == losses::TargetForm::kPixelClasses) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--model=", model.name,
        " outputs values for a whole image, but the target holds a class for "
        "each pixel; choose --model=unet or a TorchScript module"));
  }
  for (const BatchReader* const reader : {&training, evaluation}) {
    if (!model.of_pixels || reader == nullptr) continue;
    const models::ImageShape& image = reader->shape();
    const losses::TargetForm& target = reader->form();
    if (target.height == image.height && target.width == image.width) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--model=", model.name, " outputs a value for each of the ",
        image.height, "x", image.width, " pixels of an image",
        reader == evaluation ? " of the evaluation" : "",
        ", but the target has ", target.height, "x", target.width,
        "; change the pipeline so that both have the same size"));
  }
  Learner learner;
  // The same first weights on every rank, whatever else used the generator.
  torch::manual_seed(config.seed.value_or(0));
  MR_ASSIGN_OR_RETURN(
      learner.model,
      UsageError(models::MakeModel(
          config.model, training.shape(),
          model.of_pixels ? form.channels : form.outputs, device)));
  learner.model->to(device);
  if (config.channels_last) models::UseChannelsLast(*learner.model);
  learner.model->train();
  MR_ASSIGN_OR_RETURN(
      learner.loss,
      UsageError(losses::MakeLoss(loss, device, training.ignore_value())));
  if (!config.init_weights.empty()) {
    const absl::Status loaded =
        weights::LoadWeights(config.init_weights, config.init_weights_without,
                             weights::WeightsOf(*learner.model));
    if (!loaded.ok() && ReadCheckpointInfo(config.init_weights).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--init_weights=", config.init_weights,
                       " is a checkpoint of millrace-train, not a file of "
                       "weights; to continue its run, give --resume=",
                       config.init_weights,
                       ". To get its weights, run its command again with "
                       "--resume=auto --save_weights=NAME.safetensors, and "
                       "give that file to --init_weights"));
    }
    MR_RETURN_IF_ERROR(UsageError(loaded));
  }
  // The built-in models and losses fit the data that they were made for, but
  // perhaps not an evaluation of images of another size.
  const bool foreign = !model.file.empty() || !loss.file.empty();
  const auto check = [&](const BatchReader& reader) {
    return CheckFit(*learner.model, *learner.loss, reader.form_of_input(),
                    reader.form(), loss.kind, config.model, device);
  };
  if (foreign) MR_RETURN_IF_ERROR(check(training));
  if (evaluation != nullptr &&
      (foreign || evaluation->form_of_input() != training.form_of_input())) {
    const absl::Status fits = check(*evaluation);
    if (!fits.ok()) {
      return absl::Status(
          fits.code(),
          absl::StrCat("the evaluation's samples do not fit: ", fits.message(),
                       "; set another pipeline for the evaluation with "
                       "--eval_preset or --eval_pipeline"));
    }
  }
  if (config.graph) learner.model = models::GraphOf(std::move(learner.model));
  return learner;
}

}  // namespace millrace::trainer
