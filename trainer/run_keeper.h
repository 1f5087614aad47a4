// RunKeeper writes what a run keeps: its checkpoint, and its weights for
// others. Rank 0 writes; on other ranks the calls do nothing.
//
// It refuses to write weights that belong to no place in the data, such as
// those of a step that failed while it changed them: the file that was written
// before stays.
//
// One thread.
//
//   RunKeeper keeper({.config = config, ..., .model = *model});
//   MR_RETURN_IF_ERROR(keeper.WriteCheckpoint(place));
//   MR_RETURN_IF_ERROR(keeper.SaveWeights());

#ifndef MILLRACE_TRAINER_RUN_KEEPER_H_
#define MILLRACE_TRAINER_RUN_KEEPER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "client/prefetch/host_loader.h"
#include "trainer/config.h"
#include "trainer/models/model.h"
#include "trainer/optim/updater.h"
#include "trainer/progress.h"
#include "trainer/rank_env.h"
#include "trainer/run_data.h"
#include "trainer/training_step.h"

namespace millrace {

// How far a run has come.
struct RunPlace {
  Position position;       // the next step to train
  uint64_t steps = 0;      // since the very start
  uint64_t run_steps = 0;  // of this process
};

class RunKeeper {
 public:
  // All outlive the object.
  struct Parts {
    const TrainerConfig& config;
    const RankEnv& env;
    const RunData& data;
    Classifier& model;
    Updater& updater;
    TrainingStep& step;
    Progress& progress;
    std::string model_identity;  // what a checkpoint keeps of --model
  };
  explicit RunKeeper(Parts parts) : parts_(std::move(parts)) {}

  // Does nothing where there is no --checkpoint, where the last one that was
  // written is of the same step, and where this run has trained no step and an
  // older file is there. Drops an incomplete group of batches.
  absl::Status WriteCheckpoint(const RunPlace& place);

  // To --save_weights: the averaged weights, where there are any.
  absl::Status SaveWeights();

  // Does the work while the model has the averaged weights, where there are
  // any.
  absl::Status WithAverage(const std::function<absl::Status()>& work);

 private:
  // Not OK: the model's weights are not those of `position`, and why.
  absl::Status WeightsAreKnown(const Position& position) const;

  const Parts parts_;
  std::optional<uint64_t> checkpointed_;  // steps in the last file written
  std::string lost_weights_;  // why the weights are of no position; or empty
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_RUN_KEEPER_H_
