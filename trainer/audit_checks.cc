#include "trainer/audit_checks.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/audit/audit_log.h"
#include "common/count_text.h"
#include "common/logging.h"

namespace millrace::trainer {

absl::Status CheckAuditStart(const std::string& path, absl::string_view resume,
                             absl::string_view checkpoint) {
  if (!checkpoint.empty()) return absl::OkStatus();
  const absl::StatusOr<audit::AuditFile> file = audit::ReadAuditFile(path);
  // The loader could open the log: an earlier start ended before its first
  // step.
  if (!file.ok()) return absl::OkStatus();
  uint64_t steps = 0;
  for (const audit::AuditSegment& segment : file->segments)
    steps += segment.records;
  if (steps == 0) return absl::OkStatus();
  if (!resume.empty()) {
    MR_LOG(WARNING) << "no checkpoint to resume from: the run begins "
                       "at its first step, and "
                    << CountText(steps, "step") << " of earlier starts in "
                    << path << " no longer count";
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the audit log ", path, " has ", CountText(steps, "step"),
      " of an earlier run of this plan, and this run begins at its first step "
      "without --resume, so those steps would no longer count; give a new job "
      "another --audit_dir, or resume the earlier one with --resume=CHECKPOINT "
      "or with --checkpoint=FILE --resume=auto"));
}

absl::Status CheckAuditIsComplete(const std::string& path, uint64_t attempt,
                                  uint64_t batches) {
  if (batches == 0) return absl::OkStatus();
  const absl::StatusOr<audit::AuditFile> file = audit::ReadAuditFile(path);
  uint64_t records = 0;
  if (file.ok()) {
    for (const audit::AuditSegment& segment : file->segments) {
      if (segment.run.attempt() == attempt) records += segment.records;
    }
  }
  if (records >= batches) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "the audit log ", path, " has ", records, " of the ",
      CountText(batches, "batch", "batches"), " that this rank received",
      file.ok() ? "" : absl::StrCat(" (", file.status().message(), ")"),
      ": the log could not be written in full, so `millrace audit --files` "
      "cannot prove what the job received; free space on that disk, then "
      "train again from the last checkpoint before that"));
}

}  // namespace millrace::trainer
