// Keeps the batch of a step whose loss is no finite number: the same bytes that
// the servers gave for it, asked for once more (a batch is a function of its
// position), on the CPU and the GPU alike.
//
//   const std::string what = KeepFailedBatch(options, config);
//   // "its batch lies in run.failed_batch/epoch-0-step-7-rank-0 (image: 3 NaN,
//   // the first in row 5); ..."

#ifndef MILLRACE_TRAINER_FAILED_BATCH_H_
#define MILLRACE_TRAINER_FAILED_BATCH_H_

#include <string>

#include "client/prefetch/host_loader.h"
#include "trainer/config.h"

namespace millrace {

// Writes FOLDER/epoch-E-step-S-rank-R/: batch.json and a .npy for each tensor,
// as `millrace replay` does; what an earlier try has left there is replaced.
// FOLDER is --failed_batch, else beside --checkpoint. `options.start` is the
// position. Returns a clause for an error's sentence: where it is and what is
// wrong with its numbers, or why it is not kept, and the command that gets it
// again. Waits for the servers at most as `options` say.
std::string KeepFailedBatch(const HostLoaderOptions& options,
                            const TrainerConfig& config);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_FAILED_BATCH_H_
