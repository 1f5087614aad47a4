// An audit log is a small file that a rank appends to while it trains: 32 bytes
// per step that identify the samples of the step. `millrace audit --files=DIR`
// reads the logs of all ranks and restarts of a job and checks whether every
// sample came exactly once (client/audit/audit_check.h). docs/formats.md
// defines the format.
//
// It is not a log for people: it holds digests, not sentences.
//
// A record is one write() to the end of the file, so records survive a kill of
// the process. After a power failure, the last records may be missing. Reading
// skips bytes that are not a record, reports them, and tells a write that was
// cut short from damage.
//
// AuditWriter: one thread at a time. Owns the file, which it locks.
//
//   MR_ASSIGN_OR_RETURN(auto writer, AuditWriter::Open(path, run));
//   writer->Append(batch.position, record);

#ifndef MILLRACE_CLIENT_AUDIT_AUDIT_LOG_H_
#define MILLRACE_CLIENT_AUDIT_AUDIT_LOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/audit/audit_record.h"
#include "client/prefetch/host_loader.h"
#include "proto/audit_log.pb.h"
#include "proto/names.h"

namespace millrace::audit {

// Steps of both runs may be in one log: plan, content and steps per epoch are
// the same. The number of ranks may differ.
bool IsSamePlan(const AuditRun& a, const AuditRun& b);

class AuditWriter {
 public:
  // Creates the file, or appends to a log of the same job: the same plan and
  // content, on any number of ranks. Scans an existing file once. The head of
  // the run is written with the first record. A warning names an existing file
  // that is damaged, or has no whole head (it is empty, or its first write was
  // cut short). InvalidArgument: the file has steps of another plan or other
  // content, is not an audit log, or is not a file (a FIFO, a folder); it is
  // not changed. FailedPrecondition: another process writes to the file.
  static absl::StatusOr<std::unique_ptr<AuditWriter>> Open(std::string path,
                                                           AuditRun run);
  // Removes a file that Open() created and that has no record.
  ~AuditWriter();
  AuditWriter(const AuditWriter&) = delete;
  AuditWriter& operator=(const AuditWriter&) = delete;

  // After an error, nothing more is written: a hole in the log would look like
  // lost steps. Later calls return the first error again.
  absl::Status Append(Position position, const AuditRecord& record);

 private:
  AuditWriter(std::string path, int fd, AuditRun run)
      : path_(std::move(path)), fd_(fd), run_(std::move(run)) {}
  absl::Status Write(const std::string& bytes);
  absl::Status BeginSegment(Position position);

  const std::string path_;
  const int fd_;
  AuditRun run_;
  bool created_ = false;  // by Open()
  bool begun_ = false;
  Position next_;      // after the last record
  uint64_t seed_ = 0;  // of the checks of records
  absl::Status error_;
};

// Records of consecutive steps.
struct AuditSegment {
  AuditRun run;
  std::string file;
  uint64_t offset = 0;  // of the first record in the file
  uint64_t records = 0;
  uint64_t seed = 0;
};

struct AuditFile {
  std::vector<AuditSegment> segments;  // in the order of the file
  // Bytes that do not count: not a record, or a record after damage.
  uint64_t skipped_bytes = 0;
  // Offset of the first damage: bytes that no write that was cut short
  // explains.
  std::optional<uint64_t> damaged_at;
};

// A sentence for damaged_at of the log `path`.
std::string DamageText(absl::string_view path, uint64_t offset);

// DataLoss: the log is damaged or cut off before its first whole head.
// InvalidArgument: not an audit log, a log of a newer format, or not a file.
// Memory grows with the number of segments, not of records.
absl::StatusOr<AuditFile> ReadAuditFile(const std::string& path);

// Calls `each` with the records [first, first + count) of the segment, in
// order.
absl::Status ReadAuditRecords(
    const AuditSegment& segment, uint64_t first, uint64_t count,
    const std::function<void(const AuditRecord&)>& each);

}  // namespace millrace::audit

#endif  // MILLRACE_CLIENT_AUDIT_AUDIT_LOG_H_
