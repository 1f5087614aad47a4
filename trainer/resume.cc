#include "trainer/resume.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "trainer/files.h"

namespace millrace {

bool ResumePoint::Holds(absl::string_view part) const {
  return std::find(info.parts.begin(), info.parts.end(), part) !=
         info.parts.end();
}

absl::StatusOr<ResumePoint> FindResumePoint(const TrainerConfig& config,
                                            const std::string& model) {
  if (config.resume.empty()) return ResumePoint();
  const bool automatic = config.resume == "auto";
  ResumePoint point;
  point.file = automatic ? config.checkpoint : config.resume;
  if (const absl::Status found = CheckReadable(point.file);
      absl::IsNotFound(found)) {
    if (automatic) return ResumePoint();
    return UsageError(found);
  }
  MR_ASSIGN_OR_RETURN(point.info, ReadCheckpointInfo(point.file));
  const CheckpointInfo& info = point.info;
  if (info.model != model || info.optimizer != config.optimizer) {
    return absl::InvalidArgumentError(
        absl::StrCat(point.file, " holds --model=", info.model,
                     " --optimizer=", info.optimizer, ", not --model=", model,
                     " --optimizer=", config.optimizer,
                     absl::StartsWith(model, "torchscript:")
                         ? " (a TorchScript file goes by a hash of its content)"
                         : ""));
  }
  if (config.ema == 0 && point.Holds("average")) {
    return absl::InvalidArgumentError(absl::StrCat(
        point.file,
        " holds averaged weights, which --ema would go on with; give --ema"));
  }
  if (info.position.step % config.accumulate != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        point.file, " was written after ", info.position.step,
        " batches of an epoch, which --accumulate=", config.accumulate,
        " does not divide; go on with --accumulate=", info.accumulate));
  }
  return point;
}

}  // namespace millrace
