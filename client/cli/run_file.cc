#include "client/cli/run_file.h"

#include <sys/stat.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/diagnosis/run_summary.h"
#include "common/hex.h"
#include "common/read_file.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "proto/spec_text.h"

namespace millrace::cli {
namespace {

constexpr uint64_t kMaxSummaryBytes = 64 << 20;

absl::StatusOr<RunFile> FromSummary(const diagnosis::RunSummary& summary,
                                    const std::string& path) {
  if (summary.pipeline.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " has no `pipeline`: the file is not a summary of millrace-train, or "
        "an "
        "earlier version wrote it; give --dataset and --preset or --pipeline "
        "instead"));
  }
  RunFile run;
  MR_ASSIGN_OR_RETURN(run.spec, ParseSpecText(summary.pipeline, path));
  absl::StatusOr<std::string> plan_hash = ParseHex(summary.plan_hash);
  if (!plan_hash.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan_hash of ", path, ": ", plan_hash.status().message(),
                     "; the file is damaged or was edited"));
  }
  run.plan_hash = *std::move(plan_hash);
  run.fingerprint = summary.fingerprint;
  run.endpoint = summary.endpoint;
  run.world_size = summary.world_size;
  return run;
}

// The number of a step, counted from epoch 0. Nothing: the number overflows.
std::optional<uint64_t> NumberOf(uint64_t epoch, uint64_t step,
                                 uint64_t steps_per_epoch) {
  uint64_t number = 0;
  if (__builtin_mul_overflow(epoch, steps_per_epoch, &number) ||
      __builtin_add_overflow(number, step, &number)) {
    return std::nullopt;
  }
  return number;
}

// The file when it begins as a summary; empty: it begins otherwise. A pipe can
// be read only once, and holds a summary.
absl::StatusOr<std::string> SummaryText(const std::string& path) {
  struct stat info;
  const bool at_once = stat(path.c_str(), &info) == 0 &&
                       !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
  absl::StatusOr<std::string> text = at_once ? ReadFile(path, kMaxSummaryBytes)
                                             : ReadRegularFileStart(path, 1);
  if (text.ok() && text->empty()) {
    text = absl::InvalidArgumentError("cannot read the file: it is empty");
  }
  if (!text.ok()) {
    return absl::Status(
        text.status().code(),
        absl::StrCat("--run=", path, ": ", text.status().message()));
  }
  if (text->front() != '{') return "";
  return at_once ? text : ReadFile(path, kMaxSummaryBytes);
}

}  // namespace

absl::StatusOr<RunFile> ReadRunFile(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string text, SummaryText(path));
  if (!text.empty()) {
    MR_ASSIGN_OR_RETURN(const diagnosis::RunSummary summary,
                        diagnosis::ParseRunSummary(text, path));
    return FromSummary(summary, path);
  }
  RunFile run;
  MR_ASSIGN_OR_RETURN(run.log, audit::ReadAuditFile(path));
  const AuditRun& last = run.log.segments.back().run;
  run.spec = last.resolved_spec();
  run.plan_hash = last.plan_hash();
  run.fingerprint = last.fingerprint();
  run.endpoint = last.endpoint();
  run.world_size = last.world_size();
  run.rank = last.rank();
  return run;
}

std::string RunFile::WhatTheLogHolds() const {
  constexpr size_t kNamed = 4;
  std::vector<std::string> parts;
  for (auto it = log.segments.rbegin(); it != log.segments.rend(); ++it) {
    const AuditRun& run = it->run;
    const uint64_t steps = run.steps_per_epoch();
    if (it->records == 0 || steps == 0) continue;
    if (parts.size() == kNamed) {
      parts.push_back("and earlier ones");
      break;
    }
    // The numbers come from a file: only those that can be added are named.
    const std::optional<uint64_t> from =
        NumberOf(run.epoch(), run.step(), steps);
    const uint64_t last = from.value_or(0) + it->records - 1;
    if (!from.has_value() || last < *from) continue;
    parts.push_back(absl::StrCat("rank ", run.rank(), " of ", run.world_size(),
                                 ": epoch ", run.epoch(), " step ", run.step(),
                                 " to epoch ", last / steps, " step ",
                                 last % steps));
  }
  return parts.empty() ? "no step" : absl::StrJoin(parts, "; ");
}

absl::StatusOr<std::optional<audit::AuditRecord>> RunFile::RecordOf(
    Position position, uint32_t rank_of, uint32_t world_of) const {
  for (auto it = log.segments.rbegin(); it != log.segments.rend(); ++it) {
    const AuditRun& run = it->run;
    if (run.rank() != rank_of || run.world_size() != world_of ||
        run.steps_per_epoch() == 0) {
      continue;
    }
    const std::optional<uint64_t> from =
        NumberOf(run.epoch(), run.step(), run.steps_per_epoch());
    const std::optional<uint64_t> at =
        NumberOf(position.epoch, position.step, run.steps_per_epoch());
    if (!from.has_value() || !at.has_value()) continue;
    if (*at < *from || *at - *from >= it->records) continue;
    std::optional<audit::AuditRecord> found;
    MR_RETURN_IF_ERROR(audit::ReadAuditRecords(
        *it, *at - *from, 1,
        [&found](const audit::AuditRecord& r) { found = r; }));
    return found;
  }
  return std::optional<audit::AuditRecord>();
}

}  // namespace millrace::cli
