// Whether model, data and loss fit one another, found at the start of a run by
// one batch of zeros: for models and losses from files nobody knows before.
//
// The model is left as it was: nothing is learnt, running statistics stay.
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

namespace millrace {

// InvalidArgument says what the model, called `name` in the sentence, takes or
// gives, and what it should.
absl::Status CheckFit(Classifier& model, Loss& loss, const InputForm& input,
                      const TargetForm& form, LossKind kind,
                      const std::string& name, torch::Device device);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_FIT_H_
