// An audit log is a small file that a rank appends to while it trains: which
// samples it was given in which step, 32 bytes a step. `millrace audit
// --files=DIR` reads those of all ranks and restarts of a job and says whether
// every sample came exactly once (client/audit/audit_check.h). The format is
// written down in docs/formats.md.
//
// A record is one write() to the end of the file: what the process was given
// before it was killed is there. A machine that loses its power may lose the
// last records; reading skips what is no record, says so, and tells a write
// that was cut short from damage.
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

namespace millrace {

// Steps of both runs may stand in one log: their plan, content and steps an
// epoch are the same. The number of ranks may differ.
bool IsSamePlan(const AuditRun& a, const AuditRun& b);

class AuditWriter {
 public:
  // Makes the file, or goes on at the end of a log of the same job: of the same
  // plan and content, on whatever number of ranks. Scans the file once, 32
  // bytes a step. The run's place is written with the first record.
  // InvalidArgument: the file has steps of another plan or other content, is no
  // audit log, or is no file (a FIFO, a folder); it is left as it was.
  // FailedPrecondition: another process writes to it. A file that is there and
  // has no whole head (it is empty, or its first write was cut short) is
  // appended to; a warning names it. So does one for a file that is damaged.
  static absl::StatusOr<std::unique_ptr<AuditWriter>> Open(std::string path,
                                                           AuditRun run);
  // Removes a file that Open() has made and that has no record.
  ~AuditWriter();
  AuditWriter(const AuditWriter&) = delete;
  AuditWriter& operator=(const AuditWriter&) = delete;

  // After an error nothing more is written: a log with a hole would look as if
  // steps were lost in the middle. The first error is returned again.
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
  Position next_;      // that follows the last record
  uint64_t seed_ = 0;  // of the checks of records
  absl::Status error_;
};

// Records that follow one another step by step.
struct AuditSegment {
  AuditRun run;
  std::string file;
  uint64_t offset = 0;  // of the first record in the file
  uint64_t records = 0;
  uint64_t seed = 0;
};

struct AuditFile {
  std::vector<AuditSegment> segments;  // in the order of the file
  // Bytes that do not count: no record, or one behind damage.
  uint64_t skipped_bytes = 0;
  // Of the first that no write that was cut short explains: the file was
  // damaged.
  std::optional<uint64_t> damaged_at;
};

// A sentence for damaged_at of the log `path`.
std::string DamageText(absl::string_view path, uint64_t offset);

// DataLoss: an audit log that is damaged or cut off before its first whole head.
// InvalidArgument: no audit log, one of a newer format, or no file. Memory grows
// with the number of segments, not of records.
absl::StatusOr<AuditFile> ReadAuditFile(const std::string& path);

// Calls `each` with records `first` .. `first + count` of the segment, whose
// positions follow one another.
absl::Status ReadAuditRecords(
    const AuditSegment& segment, uint64_t first, uint64_t count,
    const std::function<void(const AuditRecord&)>& each);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_AUDIT_AUDIT_LOG_H_
