// Whether a rank's audit log holds all that the rank was given. The loader goes
// on when its log cannot be written, as on a full disk; at the end of a run
// this says so.

#ifndef MILLRACE_TRAINER_AUDIT_COMPLETE_H_
#define MILLRACE_TRAINER_AUDIT_COMPLETE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace millrace {

// Reads the log. `batches`: how many the rank was given in the start `attempt`
// of the job. DataLoss: the log has fewer records of that start.
absl::Status CheckAuditIsComplete(const std::string& path, uint64_t attempt,
                                  uint64_t batches);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_AUDIT_COMPLETE_H_
