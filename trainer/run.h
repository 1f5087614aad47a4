// One rank's training run, from opening the data to the summary.

#ifndef MILLRACE_TRAINER_RUN_H_
#define MILLRACE_TRAINER_RUN_H_

#include "absl/status/statusor.h"
#include "client/diagnosis/run_summary.h"
#include "common/stop_signals.h"
#include "trainer/config.h"
#include "trainer/rank_env.h"

namespace millrace::trainer {

// Trains, evaluates, writes the checkpoint after each epoch, and writes the
// files that `config` names. On an error (data servers or another rank missing,
// a loss that is NaN or infinite, or a stop signal as Cancelled) rank 0 has
// written the checkpoint, when one was requested, of the last complete step. A
// checkpoint with values that are NaN or infinite is not written; the previous
// one is kept. A rank that must stop tells the others before a step, and all
// ranks end there. A signal before all ranks have joined ends the process.
// All ranks return an equal summary; rank 0 writes the files.
absl::StatusOr<diagnosis::RunSummary> RunTraining(const TrainerConfig& config,
                                                  const RankEnv& env,
                                                  StopSignals& stop);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RUN_H_
