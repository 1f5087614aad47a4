// CheckAuditLogs joins the audit logs of all ranks and starts of a job and says
// of every epoch what the job was given of it.
//
// What counts: a start of the job (an attempt) takes the place of all that
// earlier ones were given from its first position on, because it began from a
// checkpoint of that position. What is left must hold every step once, on each
// of the ranks that there were then; the number of ranks may differ from start
// to start.
//
// What it proves of a complete epoch (AuditEpoch::Proof):
//   kProved   the steps came once on every rank, and count and 64-bit hash sum
//             of the samples are those of all samples of the dataset: each came
//             exactly once. Needs one dataset as a whole and no dropped rest.
//   kCounted  the steps came once on every rank and the number of samples is
//             right. Which ones they were follows from the plan, which the
//             digests of the records can be compared with (`millrace audit
//             --files --endpoint`).
//
// Pure but for reading the files. Memory follows the number of starts and
// epochs, not of steps or samples.

#ifndef MILLRACE_CLIENT_AUDIT_AUDIT_CHECK_H_
#define MILLRACE_CLIENT_AUDIT_AUDIT_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/audit/audit_log.h"

namespace millrace {

struct AuditEpoch {
  enum Proof { kIncomplete, kWrong, kCounted, kProved };

  uint64_t epoch = 0;
  uint64_t steps = 0;  // that all ranks were given
  uint64_t samples = 0;
  uint64_t sample_sum = 0;
  Proof proof = kIncomplete;
};

// Records that count.
struct AuditPart {
  AuditSegment segment;
  uint64_t first = 0;  // record of the segment
  uint64_t count = 0;
  Position start;  // of record `first`
};

struct AuditResult {
  AuditRun run;  // of any segment: plan and spec are those of all
  uint64_t attempts = 0;
  // Records, and those among them that a later start took the place of.
  uint64_t records = 0;
  uint64_t superseded = 0;
  std::vector<AuditEpoch> epochs;
  std::vector<AuditPart> parts;
  // The logs begin with step `begin`; `end` follows the last step that every
  // rank was given.
  Position begin;
  Position end;
  // What was lost or came twice, a sentence each; the first kMostProblems.
  std::vector<std::string> problems;
  uint64_t problem_count = 0;
  bool damaged = false;  // a log is; the first problems name which
  // What a reader should know, no problem by itself.
  std::vector<std::string> notes;

  static constexpr size_t kMostProblems = 100;
  void AddProblem(std::string problem);
};

// InvalidArgument: no records, logs of different jobs (says which), or a log
// that names a place that does not exist. DataLoss: no records, because the
// first of a log is damaged.
absl::StatusOr<AuditResult> CheckAuditLogs(absl::Span<const AuditFile> files);

// Whether hash sums can tell all samples of the run's epochs, but for those
// that DROP leaves out.
bool HasKnownSamples(const AuditRun& run);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_AUDIT_AUDIT_CHECK_H_
