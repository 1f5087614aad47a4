// Finds the checkpoint that a run resumes from, and checks that it is of this
// run.

#ifndef MILLRACE_TRAINER_RESUME_H_
#define MILLRACE_TRAINER_RESUME_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/prefetch/host_loader.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "trainer/checkpoint.h"
#include "trainer/config.h"

namespace millrace::trainer {

struct ResumePoint {
  std::string file;  // empty: the run begins at its first step
  CheckpointInfo info;

  bool Holds(absl::string_view part) const;
};

// Reads the file of --resume; with --resume=auto the file of --checkpoint if it
// exists. InvalidArgument: it was written with flags that do not fit `config`.
// `model` is IdentityOf() of the run's model. A UsageError: the named file is
// missing, or is no checkpoint of this version.
absl::StatusOr<ResumePoint> FindResumePoint(const TrainerConfig& config,
                                            const std::string& model);

// Explains `error`: the servers make another plan from the run's flags than the
// checkpoint has. Asks the servers, with `options`, for the plan and names the
// flags whose values differ: InvalidArgument. Returns `error` itself when no
// flag differs (the data or the servers changed), or when the checkpoint, of an
// earlier version, does not hold the flags. Blocks for a round trip.
absl::Status NameChangedFlags(const absl::Status& error,
                              const ResumePoint& point,
                              HostLoaderOptions options);

// "--batch_size=32, now --batch_size=64; --seed=0, now --seed=1": the
// differences between the resolved specs of a checkpoint and of a run. Empty:
// none.
std::string ChangedFlags(const PipelineSpec& before, const PipelineSpec& now);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_RESUME_H_
