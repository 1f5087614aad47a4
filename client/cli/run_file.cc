#include "client/cli/run_file.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/hex.h"
#include "common/status_macros.h"
#include "proto/spec_text.h"

namespace millrace {
namespace {

constexpr std::streamsize kMostSummaryBytes = 64 << 20;

absl::StatusOr<RunFile> FromSummary(const std::string& text,
                                    const std::string& path) {
  google::protobuf::Struct summary;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(text, &summary);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is neither an audit log nor a summary of millrace-train"));
  }
  const auto word = [&summary](const char* key) -> std::string {
    const auto found = summary.fields().find(key);
    return found == summary.fields().end() ? "" : found->second.string_value();
  };
  RunFile run;
  if (word("pipeline").empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " says no `pipeline`: it is no summary of millrace-train, or of an "
        "earlier version; give --dataset and the like instead"));
  }
  MR_ASSIGN_OR_RETURN(run.spec, ParseSpecText(word("pipeline"), path));
  absl::StatusOr<std::string> plan_hash = ParseHex(word("plan_hash"));
  if (!plan_hash.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " says plan_hash ", plan_hash.status().message(),
                     ": the file is damaged or was edited"));
  }
  run.plan_hash = *std::move(plan_hash);
  run.fingerprint = word("fingerprint");
  run.endpoint = word("endpoint");
  const auto world = summary.fields().find("world_size");
  if (world != summary.fields().end() && world->second.number_value() >= 1 &&
      world->second.number_value() <= 1e9) {
    run.world_size = static_cast<uint32_t>(world->second.number_value());
  }
  return run;
}

// Of a step, counted from epoch 0. Nothing: there is no such number.
std::optional<uint64_t> NumberOf(uint64_t epoch, uint64_t step,
                                 uint64_t steps_per_epoch) {
  uint64_t number = 0;
  if (__builtin_mul_overflow(epoch, steps_per_epoch, &number) ||
      __builtin_add_overflow(number, step, &number)) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

absl::StatusOr<RunFile> ReadRunFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  char first = 0;
  if (!file || !file.get(first)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--run=", path, ": cannot read the file: ",
                     errno == 0 ? "it is empty" : std::strerror(errno)));
  }
  if (first == '{') {
    std::string text(1, first);
    std::string rest(kMostSummaryBytes, '\0');
    file.read(rest.data(), kMostSummaryBytes);
    text.append(rest, 0, static_cast<size_t>(file.gcount()));
    return FromSummary(text, path);
  }
  RunFile run;
  MR_ASSIGN_OR_RETURN(run.log, ReadAuditFile(path));
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
    // Foreign numbers: only those that can be added are named.
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

absl::StatusOr<std::optional<AuditRecord>> RunFile::RecordOf(
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
    std::optional<AuditRecord> found;
    MR_RETURN_IF_ERROR(ReadAuditRecords(
        *it, *at - *from, 1, [&found](const AuditRecord& r) { found = r; }));
    return found;
  }
  return std::optional<AuditRecord>();
}

}  // namespace millrace
