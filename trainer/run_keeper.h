// RunKeeper writes the results that outlive a run: its checkpoint, and its
// weights. Rank 0 writes; on other ranks the calls do nothing.
//
// It refuses to write weights that match no position in the data, such as those
// of a step that failed while it changed them. The previous file is then kept.
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

namespace millrace::trainer {

// Progress of a run.
struct RunPlace {
  Position position;       // the next step to train
  uint64_t steps = 0;      // since the job's first start
  uint64_t run_steps = 0;  // by this process
};

class RunKeeper {
 public:
  // All must outlive the object.
  struct Parts {
    const TrainerConfig& config;
    const RankEnv& env;
    const RunData& data;
    models::Classifier& model;
    optim::Updater& updater;
    TrainingStep& step;
    Progress& progress;
    std::string model_identity;  // IdentityOf() of --model
  };
  explicit RunKeeper(Parts parts) : parts_(std::move(parts)) {}

  // Does nothing without --checkpoint, when the last file is of the same step,
  // and when this run trained no step and an older file exists. Drops an
  // incomplete group of batches.
  absl::Status WriteCheckpoint(const RunPlace& place);

  // Writes --save_weights: the averaged weights if there are any.
  absl::Status SaveWeights();

  // Runs the function while the model has the averaged weights, if there are
  // any.
  absl::Status WithAverage(const std::function<absl::Status()>& work);

 private:
  // Not OK: the model's weights do not match `position`; the message says why.
  absl::Status WeightsAreKnown(const Position& position) const;

  const Parts parts_;
  std::optional<uint64_t> checkpointed_;  // steps of the last written file
  std::string lost_weights_;  // why the weights are of no position; or empty
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RUN_KEEPER_H_
