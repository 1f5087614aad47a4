// `millrace replay`: fetches any batch of a job again and writes it as files:
// tensors, samples, and the random choices for each sample.

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/audit/audit_record.h"
#include "client/batch_files/batch_files.h"
#include "client/batch_files/explanation_json.h"
#include "client/cli/commands.h"
#include "client/cli/run_file.h"
#include "client/cli/spec_flags.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "client/receive/server_queries.h"
#include "common/count_text.h"
#include "common/json_text.h"
#include "common/program/flag_set.h"
#include "common/program/report.h"
#include "common/status_macros.h"
#include "proto/dtype.h"

namespace millrace::cli {
namespace {

absl::StatusOr<Position> ParsePosition(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  Position position;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &position.epoch) ||
      !absl::SimpleAtoi(parts[1], &position.step)) {
    return absl::InvalidArgumentError(
        absl::StrCat("flag --position=", text,
                     ": expected EPOCH:STEP, both counted from 0"));
  }
  return position;
}

int64_t Int64At(absl::Span<const uint8_t> data, uint64_t i) {
  int64_t value;
  std::memcpy(&value, data.data() + i * sizeof(value), sizeof(value));
  return value;
}

// Every digit of an integer: a sample's index names the sample.
std::string ElementText(DType dtype, double value) {
  return IsInteger(dtype) ? absl::StrFormat("%.0f", value)
                          : absl::StrFormat("%.6g", value);
}

// Without an explanation of a server: the facts that the batch contains.
ExplainBatchResponse FromBatch(
    const HostBatch& batch,
    const std::vector<batch_files::BatchArray>& arrays) {
  ExplainBatchResponse response;
  for (const batch_files::BatchArray& array : arrays) {
    if (array.name != "sample_index" || array.dtype != DTYPE_INT64) continue;
    for (uint64_t row = 0; row < batch.header.rows(); ++row) {
      ExplainedRow* const one = response.add_explained();
      one->set_row(row);
      one->set_position(batch.header.first_position() + row);
      one->set_sample(Int64At(array.data, row));
      one->set_shard_row(-1);
    }
  }
  return response;
}

struct ReplayFlags {
  SpecFlags spec;
  std::string position;
  bool rank_given = false;
  bool world_given = false;
  std::string output;
  std::string run;
  bool explain = true;
};

// A mistake on the command line has the mark of UsageError().
absl::Status Replay(ReplayFlags& given) {
  if (given.position.empty()) {
    return UsageError(
        absl::InvalidArgumentError("flag --position=EPOCH:STEP is missing"));
  }
  MR_ASSIGN_OR_RETURN(const Position position, [&] {
    absl::StatusOr<Position> parsed = ParsePosition(given.position);
    if (!parsed.ok()) parsed = UsageError(parsed.status());
    return parsed;
  }());
  if (given.output.empty()) {
    return UsageError(
        absl::InvalidArgumentError("flag --output=DIR is missing"));
  }
  HostLoaderOptions options;
  std::optional<RunFile> run;
  if (!given.run.empty()) {
    MR_ASSIGN_OR_RETURN(run, UsageError(ReadRunFile(given.run)));
    std::string& endpoint = given.spec.loader.options.endpoint;
    if (endpoint.empty()) endpoint = run->endpoint;
    MR_RETURN_IF_ERROR(UsageError(given.spec.loader.RequireEndpoint()));
    if (given.spec.SaysWhatToLoad()) {
      return UsageError(absl::InvalidArgumentError(
          "the file of --run names the data: leave --dataset, --preset, "
          "--pipeline, --outputs, --batch_size, --seed, --last_batch and "
          "--compression out"));
    }
    LoaderOptions& part = given.spec.loader.options;
    if (!given.world_given) part.world_size = run->world_size;
    if (!given.rank_given && run->rank >= part.world_size) {
      return UsageError(absl::InvalidArgumentError(absl::StrCat(
          "flag --world=", part.world_size, ": the file of --run is of rank ",
          run->rank, " of ", run->world_size,
          "; give --rank=N too, or leave --world out")));
    }
    if (!given.rank_given) part.rank = run->rank;
    MR_RETURN_IF_ERROR(UsageError(given.spec.ValidateHow()));
    options = given.spec.MakeOptions();
    options.spec = run->spec;
    options.expected_plan_hash = run->plan_hash;
    options.expected_fingerprint = run->fingerprint;
  } else {
    MR_RETURN_IF_ERROR(UsageError(given.spec.Validate()));
    options = given.spec.MakeOptions();
    MR_ASSIGN_OR_RETURN(options.spec, given.spec.MakeSpec());
    MR_RETURN_IF_ERROR(
        UsageError(CheckShares(options.spec, options.world_size)));
  }
  options.start = position;
  options.epochs = 1;
  options.window = 2;
  options.verify_payload = true;
  MR_RETURN_IF_ERROR(UsageError(options.Validate()));

  MR_ASSIGN_OR_RETURN(std::unique_ptr<HostLoader> loader,
                      OfRequest(receive::OpenHostLoader(options)));
  const OpenResponse& plan = loader->plan();
  // A loader may start at the end of an epoch, where there is no batch.
  if (position.step >= plan.steps_per_epoch()) {
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        "start step ", position.step, " is past the end of an epoch of ",
        CountText(plan.steps_per_epoch(), "step"),
        "; was the position saved by a job with another batch size?")));
  }
  // Before the folder is made: the next try would find a batch in it.
  std::optional<audit::AuditRecord> logged;
  if (run.has_value() && run->is_log()) {
    MR_ASSIGN_OR_RETURN(
        logged, run->RecordOf(position, options.rank, options.world_size));
    if (!logged.has_value()) {
      return absl::NotFoundError(absl::StrCat(
          "the job is not known to have received this batch, so the batch is "
          "not fetched: the audit log ",
          given.run, " has no record of epoch ", position.epoch, " step ",
          position.step, " for rank ", options.rank, " of ", options.world_size,
          "; it holds ", run->WhatTheLogHolds()));
    }
  }
  MR_ASSIGN_OR_RETURN(const HostBatch batch, loader->Next());
  const BatchHeader& header = batch.header;

  const std::vector<batch_files::BatchArray> arrays =
      batch_files::ArraysOf(batch);
  absl::StatusOr<ExplainBatchResponse> explained =
      absl::UnimplementedError("--explain=false");
  if (given.explain && header.rows() == 0) {
    explained = ExplainBatchResponse();
  } else if (given.explain) {
    explained = receive::ExplainWholeBatch(options.endpoint, plan, position,
                                           options.rank, options.world_size);
  }
  const std::string unexplained =
      explained.ok() ? "" : std::string(explained.status().message());
  if (!explained.ok()) explained = FromBatch(batch, arrays);

  const std::string digest = absl::StrFormat("%016x", header.payload_xxh3());
  JsonObject json;
  json.Add("epoch", position.epoch);
  json.Add("step", position.step);
  json.Add("rank", options.rank);
  json.Add("world_size", options.world_size);
  json.Add("rows", header.rows());
  json.Add("first_position", header.first_position());
  json.Add("local_valid", header.local_valid());
  json.Add("global_valid", header.global_valid());
  json.Add("plan_hash", absl::BytesToHexString(plan.plan_hash()));
  json.Add("fingerprint", plan.fingerprint());
  json.Add("content_revision", plan.content_revision());
  json.Add("payload_xxh3", digest);
  json.Add("pipeline", plan.resolved_spec().ShortDebugString());
  if (!unexplained.empty()) json.Add("not_explained", unexplained);
  json.AddJson("tensors", batch_files::ToJson(arrays));
  json.AddJson("drawn", batch_files::DrawnJson(explained->drawn()));
  json.AddJson("samples", batch_files::ExplainedRowsJson(*explained));
  const absl::Status written = batch_files::WriteBatchFiles(
      arrays, json.Json() + "\n", given.output, batch_files::Folder::kMayExist,
      "--output=DIR");
  // The user must give another folder.
  if (absl::IsAlreadyExists(written)) return UsageError(written);
  MR_RETURN_IF_ERROR(written);

  std::vector<std::vector<std::string>> table = {
      {"TENSOR", "TYPE", "SHAPE", "MIN", "MAX", "NAN", "INF", "FILE"}};
  for (const batch_files::BatchArray& array : arrays) {
    table.push_back({array.name, std::string(DTypeName(array.dtype)),
                     absl::StrJoin(array.shape, "x"),
                     ElementText(array.dtype, array.look.min),
                     ElementText(array.dtype, array.look.max),
                     absl::StrCat(array.look.nans),
                     absl::StrCat(array.look.infinities), array.file});
  }
  std::printf("epoch %llu step %llu, rank %u of %u: %s, digest %s\n%s",
              static_cast<unsigned long long>(position.epoch),
              static_cast<unsigned long long>(position.step), options.rank,
              options.world_size, CountText(header.rows(), "row").c_str(),
              digest.c_str(), program::Table(table).c_str());
  for (const batch_files::BatchArray& array : arrays) {
    const std::optional<uint64_t> row = batch_files::FirstBadRow(array);
    if (!row.has_value()) continue;
    std::printf("%s: the first NaN or infinite number is in row %llu\n",
                array.name.c_str(), static_cast<unsigned long long>(*row));
  }
  if (!unexplained.empty()) {
    std::printf("batch.json has no random choices: %s\n", unexplained.c_str());
  }
  if (!logged.has_value()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(audit::AuditRecord here,
                      audit::RecordOf(header, batch.payload));
  if (logged->payload_xxh3 == 0) here.payload_xxh3 = 0;
  if (here == *logged) {
    std::printf(
        "the batch is the one of the audit log%s\n",
        logged->payload_xxh3 == 0
            ? " (the same samples; the log has no digest of the payload)"
            : ", byte for byte");
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "this is not the batch of the audit log ", given.run, ": ",
      here.ids != logged->ids ? "the samples differ" : "the payload differs"));
}

}  // namespace

absl::Status RunReplay(absl::Span<const std::string> arguments) {
  ReplayFlags given;
  program::FlagSet flags(
      {.command = "millrace replay",
       .summary = "Fetches any batch of a job again and writes it as files: "
                  "DIR/batch.json and a .npy file for each tensor, with the "
                  "values that the server sent.",
       .examples = {"millrace replay --run=run.json --position=0:17 "
                    "--output=batch"}});
  given.spec.AddTo(flags);
  flags.Group("Batch");
  flags.Add(
      "run", &given.run, "FILE",
      "Summary (--json) or audit log of a millrace-train run, which names "
      "the data; instead of --dataset, --preset and the like");
  flags.Add("position", &given.position, "EPOCH:STEP",
            "Epoch and step of the batch, both counted from 0");
  given.spec.loader.AddRank(flags).Default("0, or that of the audit log");
  given.spec.loader.AddWorld(flags).Default("1, or the number in --run");
  flags.Group("Output");
  flags.Add("output", &given.output, "DIR",
            "Folder for the files; created when it is missing");
  flags.Add("explain", &given.explain, "",
            "Also fetch the random choices for each sample");
  MR_RETURN_IF_ERROR(flags.Parse(arguments));
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return absl::OkStatus();
  }
  given.rank_given = flags.Given("rank");
  given.world_given = flags.Given("world");
  return Replay(given);
}

}  // namespace millrace::cli
