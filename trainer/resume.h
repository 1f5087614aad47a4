// Which checkpoint a run goes on from, and whether it is one of this run.

#ifndef MILLRACE_TRAINER_RESUME_H_
#define MILLRACE_TRAINER_RESUME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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
// that is named is missing.
absl::StatusOr<ResumePoint> FindResumePoint(const TrainerConfig& config,
                                            const std::string& model);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_RESUME_H_
