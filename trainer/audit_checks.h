// Checks of a rank's audit log, at the start and at the end of a run. They read
// the log; the loader writes it (client/audit/audit_log.h).
//
//   MR_RETURN_IF_ERROR(CheckAuditStart(path, config.resume, resume.file));
//   ... the run ...
//   MR_RETURN_IF_ERROR(CheckAuditIsComplete(path, attempt, batches));

#ifndef MILLRACE_TRAINER_AUDIT_CHECKS_H_
#define MILLRACE_TRAINER_AUDIT_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace::trainer {

// At the start: whether the run may append to a log that already has steps, as
// the loader has opened it for this plan. It may when it resumes the job of the
// log. `resume`: the flag. `checkpoint`: the file that the run resumes from;
// empty: the run begins at its first step. InvalidArgument: it begins there
// without --resume, and the log has steps, which would no longer count. With
// --resume=auto that is a restart before the first checkpoint: a warning says
// that the steps no longer count.
absl::Status CheckAuditStart(const std::string& path, absl::string_view resume,
                             absl::string_view checkpoint);

// At the end: whether the log has every batch that the rank was given in the
// start `attempt` of the job, which were `batches`. The loader continues when
// it cannot write the log, as on a full disk. DataLoss: records of that start
// are missing.
absl::Status CheckAuditIsComplete(const std::string& path, uint64_t attempt,
                                  uint64_t batches);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_AUDIT_CHECKS_H_
