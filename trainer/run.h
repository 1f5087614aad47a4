// One rank's training run, from opening the data to the summary.

#ifndef MILLRACE_TRAINER_RUN_H_
#define MILLRACE_TRAINER_RUN_H_

#include "absl/status/statusor.h"
#include "client/diagnosis/run_summary.h"
#include "common/program/stop_signals.h"
#include "trainer/config.h"
#include "trainer/rank_env.h"

namespace millrace {

// Trains, evaluates and writes the checkpoint after each epoch, writes the
// files that `config` names. On an error (data servers gone, another rank gone,
// a loss that is no number, a stop signal as Cancelled) rank 0 has written the
// checkpoint, when one was asked for, of the last step that was complete; one
// with values that are no numbers is not written, the one before it is kept.
// A rank that has to stop says so before a step: all end there. All ranks
// return an equal summary, except for the files' sake: rank 0 writes them.
absl::StatusOr<RunSummary> RunTraining(const TrainerConfig& config,
                                       const RankEnv& env, StopSignals& stop);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_RUN_H_
