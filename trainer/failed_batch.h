// KeepFailedBatch saves the batch of a step whose loss is not finite. It
// requests the batch once more from the servers: a batch is a function of its
// position, so the bytes are the same, whatever the device of training is.
//
// Blocking; any thread.
//
//   const std::string what = KeepFailedBatch(options, config);
//   // "its batch is in run.failed_batch/epoch-0-step-7-rank-0 (image: 3 NaN
//   // and 0 infinite, the first in row 5); ..."

#ifndef MILLRACE_TRAINER_FAILED_BATCH_H_
#define MILLRACE_TRAINER_FAILED_BATCH_H_

#include <string>

#include "client/prefetch/host_loader.h"
#include "trainer/config.h"

namespace millrace::trainer {

// Writes batch.json and a .npy for each tensor to
// FOLDER/epoch-E-step-S-rank-R/, as `millrace replay` does. If that folder
// exists and has other content, its name gets a suffix (-2): nothing is
// replaced. FOLDER is --failed_batch, or else lies beside --checkpoint.
// `options.start` is the position. Returns a clause for the error message of
// the step: where the batch is and which numbers are wrong, or why the batch is
// not saved, and the command that fetches it. The timeouts of `options` bound
// the time.
std::string KeepFailedBatch(const HostLoaderOptions& options,
                            const TrainerConfig& config);

// The clause for a batch that is not saved: the command that fetches it, with
// the file of the run that names the data, or what to do without such a file.
std::string HowToFetch(const HostLoaderOptions& options,
                       const TrainerConfig& config);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_FAILED_BATCH_H_
