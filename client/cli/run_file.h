// RunFile holds what a training job loaded, from a file that the job wrote: its
// audit log, the summary of `millrace-train --json`, or the batch.json of
// --failed_batch.
//
// Plain data. Methods of a log read its file.
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

namespace millrace::cli {

struct RunFile {
  PipelineSpec spec;  // resolved
  std::string plan_hash;
  std::string fingerprint;
  std::string endpoint;
  uint32_t world_size = 1;
  uint32_t rank = 0;
  audit::AuditFile log;  // empty for a summary

  // Only a log also holds the steps that were received.
  bool is_log() const { return !log.segments.empty(); }

  // The last record of that step; nothing when the log has none.
  absl::StatusOr<std::optional<audit::AuditRecord>> RecordOf(
      Position position, uint32_t rank_of, uint32_t world_of) const;

  // The steps in the log: "rank 3 of 4: epoch 0 step 10 to epoch 1 step 20".
  // The last segments, joined by "; ".
  std::string WhatTheLogHolds() const;
};

// A pipe is read as common/read_file.h reads it, and holds no audit log.
// InvalidArgument, DataLoss: the file is none of these, or has no pipeline.
absl::StatusOr<RunFile> ReadRunFile(const std::string& path);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_RUN_FILE_H_
