// RunFile is what a file that a training job has left says of what it loaded:
// its audit log, or the summary that millrace-train writes with --json.
//
//   MR_ASSIGN_OR_RETURN(RunFile run, ReadRunFile("rank-00000.mraudit"));

#ifndef MILLRACE_CLIENT_CLI_RUN_FILE_H_
#define MILLRACE_CLIENT_CLI_RUN_FILE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/audit/audit_log.h"
#include "client/audit/audit_record.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

struct RunFile {
  PipelineSpec spec;  // resolved
  std::string plan_hash;
  std::string fingerprint;
  std::string endpoint;
  uint32_t world_size = 1;
  uint32_t rank = 0;
  AuditFile log;  // empty for a summary

  // A summary says what was loaded, not which batches came.
  bool is_log() const { return !log.segments.empty(); }

  // What the log holds of it last; nothing when it does not.
  absl::StatusOr<std::optional<AuditRecord>> RecordOf(Position position,
                                                      uint32_t rank_of,
                                                      uint32_t world_of) const;

  // What the log holds instead: "rank 3 of 4: epoch 0 step 10 to epoch 1 step
  // 20". The last segments, joined by "; ".
  std::string WhatTheLogHolds() const;
};

// InvalidArgument, DataLoss: neither of the two, or one without a pipeline.
absl::StatusOr<RunFile> ReadRunFile(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_RUN_FILE_H_
