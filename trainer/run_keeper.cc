#include "trainer/run_keeper.h"

#include <unistd.h>

#include <exception>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "trainer/checkpoint.h"
#include "trainer/position_text.h"
#include "trainer/torch_error.h"
#include "trainer/weights/model_weights.h"

namespace millrace::trainer {

absl::Status RunKeeper::WeightsAreKnown(const Position& position) const {
  std::string why = lost_weights_;
  if (parts_.updater.interrupted()) {
    why = absl::StrCat("the step at ", At(position),
                       " failed while it changed the weights");
  }
  if (why.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      why,
      ": the weights match no position in the data, so no checkpoint of them "
      "is written; the last checkpoint is kept"));
}

absl::Status RunKeeper::WriteCheckpoint(const RunPlace& place) {
  const std::string& path = parts_.config.checkpoint;
  if (path.empty() || parts_.env.rank != 0) return absl::OkStatus();
  if (checkpointed_ == place.steps) return absl::OkStatus();
  MR_RETURN_IF_ERROR(WeightsAreKnown(place.position));
  // This run trained no step: an older file is worth more.
  if (place.run_steps == 0 && access(path.c_str(), F_OK) == 0) {
    return absl::OkStatus();
  }
  // An interrupted group of batches is trained again after resume.
  try {
    parts_.step.DropGroup();
  } catch (const std::exception& error) {
    return FromTorch(error, "dropping an incomplete group of batches");
  }
  const OpenResponse& plan = parts_.data.loader->plan();
  CheckpointInfo info;
  info.model = parts_.model_identity;
  info.optimizer = parts_.config.optimizer;
  info.classes = parts_.data.reader->classes();
  info.accumulate = parts_.config.accumulate;
  info.position = place.position;
  info.steps = place.steps;
  info.plan_hash = plan.plan_hash();
  info.fingerprint = plan.fingerprint();
  info.pipeline = plan.resolved_spec();
  MR_RETURN_IF_ERROR(trainer::WriteCheckpoint(path, info, parts_.model,
                                              parts_.updater.State()));
  checkpointed_ = place.steps;
  parts_.progress.Line(
      absl::StrCat("checkpoint before ", At(place.position), ": ", path));
  return absl::OkStatus();
}

absl::Status RunKeeper::SaveWeights() {
  const std::string& path = parts_.config.save_weights;
  if (path.empty() || parts_.env.rank != 0) return absl::OkStatus();
  // The average is what is evaluated and saved.
  return WithAverage([&] {
    return millrace::weights::SaveWeights(path,
                                          weights::WeightsOf(parts_.model));
  });
}

absl::Status RunKeeper::WithAverage(const std::function<absl::Status()>& work) {
  optim::AveragedWeights* const average = parts_.updater.average();
  if (average == nullptr) return work();
  absl::Status done;
  try {
    average->Swap();
    try {
      done = work();
    } catch (const std::exception& error) {
      done = FromTorch(error, "using the averaged weights");
    }
    average->Swap();
    return done;
  } catch (const std::exception& error) {
    lost_weights_ = "exchanging the weights and their average failed";
    done.Update(FromTorch(error, "exchanging weights and their average"));
    return done;
  }
}

}  // namespace millrace::trainer
