#include "trainer/audit_start.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/audit/audit_log.h"
#include "common/count_text.h"
#include "common/logging.h"

namespace millrace {

absl::Status CheckAuditStart(const std::string& path, absl::string_view resume,
                             absl::string_view checkpoint) {
  if (!checkpoint.empty()) return absl::OkStatus();
  const absl::StatusOr<AuditFile> file = ReadAuditFile(path);
  // The loader could open it: a start was cut short before its first step.
  if (!file.ok()) return absl::OkStatus();
  uint64_t steps = 0;
  for (const AuditSegment& segment : file->segments) steps += segment.records;
  if (steps == 0) return absl::OkStatus();
  if (!resume.empty()) {
    MR_LOG(WARNING) << "there is no checkpoint to go on from: the run begins "
                       "at its first step, and "
                    << CountText(steps, "step") << " of earlier starts in "
                    << path << " no longer count";
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the audit log ", path, " has ", CountText(steps, "step"),
      " of an earlier run of this plan, and this run begins at its first step "
      "without --resume, so that those steps would no longer count: give a new "
      "job another --audit_dir; to go on with the earlier one, give "
      "--resume=CHECKPOINT, or --checkpoint=FILE with --resume=auto"));
}

}  // namespace millrace
