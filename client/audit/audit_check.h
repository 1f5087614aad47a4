// CheckAuditLogs joins the audit logs of all ranks and starts of a job and
// checks, for every epoch, which steps and samples the job received.
//
// It does not query servers: `millrace audit --files --endpoint` does.
//
// What counts: a start of the job (an attempt) replaces all records of earlier
// starts from its first position on, because it began from a checkpoint of that
// position. The remaining records must contain every step once for each rank of
// their start. The number of ranks may differ between starts.
//
// The proof for a complete epoch (AuditEpoch::Proof):
//   kProved   every rank received every step once, and count and 64-bit hash
//   sum
//             of the samples are those of all samples of the dataset: each came
//             exactly once. Requires one whole dataset and no dropped samples.
//   kCounted  every rank received every step once, and the number of samples is
//             right. The plan determines the samples; `millrace audit --files
//             --endpoint` compares them with the digests of the records.
//
// Pure function, except that it reads the files. Memory grows with the number
// of starts and epochs, not of steps or samples.
//
//   MR_ASSIGN_OR_RETURN(AuditResult result, CheckAuditLogs(files));
//   for (const AuditEpoch& epoch : result.epochs) ...

#ifndef MILLRACE_CLIENT_AUDIT_AUDIT_CHECK_H_
#define MILLRACE_CLIENT_AUDIT_AUDIT_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/audit/audit_log.h"

namespace millrace::audit {

struct AuditEpoch {
  enum Proof { kIncomplete, kWrong, kCounted, kProved };

  uint64_t epoch = 0;
  uint64_t steps = 0;  // that all ranks received
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
  // Records, and how many of them a later start or a seek back replaced.
  uint64_t records = 0;
  uint64_t superseded = 0;
  std::vector<AuditEpoch> epochs;
  std::vector<AuditPart> parts;
  // The first step of the logs, and the step after the last one that every rank
  // received.
  Position begin;
  Position end;
  // Lost and doubled steps, a sentence each; the first kMaxProblems.
  std::vector<std::string> problems;
  uint64_t problem_count = 0;
  bool damaged = false;  // a log is damaged; the first problems name it
  // Facts that are no problem.
  std::vector<std::string> notes;

  static constexpr size_t kMaxProblems = 100;
  void AddProblem(std::string problem);
};

// InvalidArgument: no records, logs of different jobs (the message names them),
// or a log with a position or a rank that does not exist. DataLoss: no records,
// because the first record of a log is damaged.
absl::StatusOr<AuditResult> CheckAuditLogs(absl::Span<const AuditFile> files);

// The hash sum of all samples of an epoch is known, except for the samples that
// DROP leaves out.
bool HasKnownSamples(const AuditRun& run);

}  // namespace millrace::audit

#endif  // MILLRACE_CLIENT_AUDIT_AUDIT_CHECK_H_
