// Whether a run that begins may write to an audit log that has steps already:
// of this job, which it goes on with, or of an earlier one of the same plan,
// whose proof it would take away.

#ifndef MILLRACE_TRAINER_AUDIT_START_H_
#define MILLRACE_TRAINER_AUDIT_START_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Reads the log, which the loader has opened as one of this plan. `resume`: the
// flag; `checkpoint`: the file that the run goes on from, empty when it begins
// at its first step. InvalidArgument: it begins there without --resume, and the
// log has steps. With --resume=auto that is a restart before the first
// checkpoint: the log is gone on with, and a warning says what becomes of its
// steps.
absl::Status CheckAuditStart(const std::string& path, absl::string_view resume,
                             absl::string_view checkpoint);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_AUDIT_START_H_
