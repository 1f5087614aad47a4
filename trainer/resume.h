// Which checkpoint a run goes on from, and whether it is one of this run.

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

namespace millrace {

struct ResumePoint {
  std::string file;  // empty: the run begins
  CheckpointInfo info;

  bool Holds(absl::string_view part) const;
};

// The file of --resume; of --resume=auto the one of --checkpoint, when it is
// there. InvalidArgument: it was written with flags that do not fit `config`;
// `model` is what IdentityOf() says of its model. A UsageError when the file
// that is named is missing, or is no checkpoint of this version.
absl::StatusOr<ResumePoint> FindResumePoint(const TrainerConfig& config,
                                            const std::string& model);

// The servers make another plan of the run's flags than the checkpoint has, and
// `error` says so. Asks them, as `options` say, which one, and names the flags
// whose values differ: InvalidArgument. `error` itself where the flags say the
// same (the data or the servers changed), or the checkpoint, of an earlier
// version, does not say what they were. Blocks for a round trip.
absl::Status NameChangedFlags(const absl::Status& error,
                              const ResumePoint& point,
                              HostLoaderOptions options);

// "--batch_size=32, now --batch_size=64; --seed=0, now --seed=1": of the
// resolved specs of a checkpoint and of a run. Empty: no difference.
std::string ChangedFlags(const PipelineSpec& before, const PipelineSpec& now);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_RESUME_H_
