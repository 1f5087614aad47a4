// Checks at the start of a run, with one batch of zeros, that model, data and
// loss fit one another: the shapes of models and losses from files are unknown
// before.
//
// The model does not change: it learns nothing and running statistics stay.
//
//   MR_RETURN_IF_ERROR(CheckFit(*model, *loss, reader.form_of_input(),
//                               reader.form(), loss_kind, config.model,
//                               device));

#ifndef MILLRACE_TRAINER_FIT_H_
#define MILLRACE_TRAINER_FIT_H_

#include <torch/types.h>

#include <string>

#include "absl/status/status.h"
#include "trainer/losses/loss.h"
#include "trainer/losses/target_form.h"
#include "trainer/models/model.h"

namespace millrace::trainer {

// InvalidArgument: they do not fit; the message names the model `name`, what it
// takes or returns, and what it should.
absl::Status CheckFit(models::Classifier& model, losses::Loss& loss,
                      const models::InputForm& input,
                      const losses::TargetForm& form, losses::LossKind kind,
                      const std::string& name, torch::Device device);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_FIT_H_
