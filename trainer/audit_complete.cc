#include "trainer/audit_complete.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/audit/audit_log.h"

namespace millrace {

absl::Status CheckAuditIsComplete(const std::string& path, uint64_t attempt,
                                  uint64_t batches) {
  if (batches == 0) return absl::OkStatus();
  const absl::StatusOr<AuditFile> file = ReadAuditFile(path);
  uint64_t records = 0;
  if (file.ok()) {
    for (const AuditSegment& segment : file->segments) {
      if (segment.run.attempt() == attempt) records += segment.records;
    }
  }
  if (records >= batches) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "the audit log ", path, " has ", records, " of the ", batches,
      " batches that this rank was given",
      file.ok() ? "" : absl::StrCat(" (", file.status().message(), ")"),
      ": it could not be written, so `millrace audit --files` cannot show what "
      "the job was given; look for room on that disk, then train again from "
      "the last checkpoint before"));
}

}  // namespace millrace
