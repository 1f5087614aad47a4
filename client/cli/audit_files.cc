#include "client/cli/audit_files.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "client/audit/audit_check.h"
#include "client/audit/audit_log.h"
#include "client/audit/audit_record.h"
#include "client/cli/spec_flags.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "common/count_text.h"
#include "common/folder.h"
#include "common/json_text.h"
#include "common/program/report.h"
#include "common/status_macros.h"
#include "common/usage_error.h"

namespace millrace::cli {
namespace {

absl::StatusOr<std::vector<std::string>> FindLogs(const std::string& files) {
  if (!IsFolder(files)) {
    return std::vector<std::string>(absl::StrSplit(files, ','));
  }
  std::vector<std::string> paths;
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(files));
  for (const std::string& name : names) {
    if (absl::EndsWith(name, ".mraudit")) {
      paths.push_back(JoinPath(files, name));
    }
  }
  if (paths.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(files, " contains no audit log (*.mraudit)"));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

HostLoaderOptions OptionsFor(const AuditFilesOptions& options,
                             const AuditRun& run) {
  HostLoaderOptions loader = options.loader;
  loader.spec = run.resolved_spec();
  loader.epochs = 0;
  loader.window = 2;
  return loader;
}

absl::StatusOr<HostBatch> BatchAt(HostLoaderOptions options, Position position,
                                  std::unique_ptr<HostLoader>* loader) {
  options.start = position;
  MR_ASSIGN_OR_RETURN(*loader, OfRequest(receive::OpenHostLoader(options)));
  return (*loader)->Next();
}

// Refetches batches of ranks. Steps of one rank in a row come from one loader:
// a new one would ask all servers again, and name those that it leaves out
// again.
class Refetcher {
 public:
  // The batch stays valid until the next call.
  absl::StatusOr<HostBatch> BatchAt(const HostLoaderOptions& options,
                                    Position position) {
    if (loader_ == nullptr || options.rank != options_.rank ||
        options.world_size != options_.world_size ||
        options.verify_payload != options_.verify_payload) {
      options_ = options;
      loader_ = nullptr;
      return cli::BatchAt(options, position, &loader_);
    }
    MR_RETURN_IF_ERROR(loader_->Seek(position));
    return loader_->Next();
  }

 private:
  HostLoaderOptions options_;
  std::unique_ptr<HostLoader> loader_;
};

BadSamplePolicy::Action PolicyOf(const audit::AuditResult& result) {
  return result.run.resolved_spec().bad_samples().action();
}

// The comparison with the batches that the servers send now.
struct Compared {
  uint64_t steps = 0;
  uint64_t different = 0;   // of these
  uint64_t payloads = 0;    // compared byte for byte, not only by their samples
  uint64_t empty_rows = 0;  // of damaged samples, in these steps
};

// Compares records that are spread evenly over all records that count.
absl::Status Compare(const AuditFilesOptions& options,
                     audit::AuditResult* result, Compared* compared) {
  uint64_t all = 0;
  for (const audit::AuditPart& part : result->parts) all += part.count;
  const uint64_t wanted = std::min(options.compare, all);
  uint64_t before = 0;  // records of earlier parts
  uint64_t next = 0;
  Refetcher refetcher;
  for (const audit::AuditPart& part : result->parts) {
    const AuditRun& run = part.segment.run;
    for (; next < wanted; ++next) {
      // 128 bits: the product is large.
      const auto record = static_cast<uint64_t>(
          static_cast<unsigned __int128>(next) * all / wanted);
      if (record >= before + part.count) break;
      const uint64_t i = record - before;
      const uint64_t steps = run.steps_per_epoch();
      const uint64_t at = part.start.epoch * steps + part.start.step + i;
      const Position position = {at / steps, at % steps};
      audit::AuditRecord logged;
      MR_RETURN_IF_ERROR(audit::ReadAuditRecords(
          part.segment, part.first + i, 1,
          [&logged](const audit::AuditRecord& r) { logged = r; }));
      HostLoaderOptions loader_options = OptionsFor(options, run);
      loader_options.rank = run.rank();
      loader_options.world_size = run.world_size();
      loader_options.expected_plan_hash = run.plan_hash();
      loader_options.expected_fingerprint = run.fingerprint();
      loader_options.verify_payload = logged.payload_xxh3 != 0;
      MR_ASSIGN_OR_RETURN(const HostBatch batch,
                          refetcher.BatchAt(loader_options, position));
      MR_ASSIGN_OR_RETURN(const audit::AuditRecord here,
                          audit::RecordOf(batch.header, batch.payload));
      ++compared->steps;
      if (logged.payload_xxh3 != 0) ++compared->payloads;
      // The record counts rows that name a sample, including empty rows.
      if (here.samples > batch.header.local_valid()) {
        compared->empty_rows += here.samples - batch.header.local_valid();
      }
      if (here == logged) continue;
      ++compared->different;
      for (audit::AuditEpoch& epoch : result->epochs) {
        if (epoch.epoch == position.epoch)
          epoch.proof = audit::AuditEpoch::kWrong;
      }
      result->AddProblem(absl::StrCat(
          "different: at epoch ", position.epoch, " step ", position.step,
          ", rank ", run.rank(), " of ", run.world_size(), " received other ",
          here.ids != logged.ids ? "samples" : "bytes of the same samples",
          " than the servers send now"));
    }
    before += part.count;
  }
  return absl::OkStatus();
}

// Adds the samples that DROP left out, which PARTIAL sends, to an epoch: the
// sum must be that of all samples.
absl::Status ProveDropped(const AuditFilesOptions& options,
                          audit::AuditResult* result) {
  const AuditRun& run = result->run;
  if (run.dropped_per_epoch() == 0 || !audit::HasKnownSamples(run)) {
    return absl::OkStatus();
  }
  std::optional<uint64_t> all;
  Refetcher refetcher;
  for (audit::AuditEpoch& epoch : result->epochs) {
    if (epoch.proof != audit::AuditEpoch::kCounted) continue;
    if (!all.has_value()) all = audit::SumOfAllSamples(run.samples_per_epoch());
    HostLoaderOptions loader_options = OptionsFor(options, run);
    loader_options.spec.set_last_batch(LAST_BATCH_PARTIAL);
    loader_options.expected_fingerprint = run.fingerprint();
    MR_ASSIGN_OR_RETURN(
        const HostBatch rest,
        refetcher.BatchAt(loader_options,
                          {epoch.epoch, run.steps_per_epoch()}));
    MR_ASSIGN_OR_RETURN(const audit::AuditRecord dropped,
                        audit::RecordOf(rest.header, rest.payload));
    if (dropped.samples == run.dropped_per_epoch() &&
        epoch.sample_sum + dropped.sample_sum == *all) {
      epoch.proof = audit::AuditEpoch::kProved;
      continue;
    }
    if (run.resolved_spec().bad_samples().action() ==
        BadSamplePolicy::SUBSTITUTE) {
      continue;
    }
    epoch.proof = audit::AuditEpoch::kWrong;
    result->AddProblem(absl::StrCat(
        "epoch ", epoch.epoch,
        " and its dropped samples do not add up to every sample once"));
  }
  return absl::OkStatus();
}

// What is missing for `expected` complete epochs, in logs without a problem.
std::string UnfinishedText(const audit::AuditResult& result, uint64_t complete,
                           uint64_t expected) {
  const uint64_t steps = result.run.steps_per_epoch();
  const Position& begin = result.begin;
  const Position& end = result.end;
  // The step before epoch `epoch` step `step`, which is not the first one.
  const auto before = [steps](const Position& position) {
    return position.step > 0 ? absl::StrCat("epoch ", position.epoch, " step ",
                                            position.step - 1)
                             : absl::StrCat("epoch ", position.epoch - 1,
                                            " step ", steps - 1);
  };
  std::string missing;
  if (begin != Position()) {
    absl::StrAppend(&missing, ", and the steps from epoch 0 step 0 to ",
                    before(begin), " are missing at the beginning");
  }
  if (end.epoch < expected) {
    absl::StrAppend(&missing, ", and the steps from epoch ", end.epoch,
                    " step ", end.step, " to ", before({expected, 0}),
                    " are missing at the end");
  }
  return absl::StrCat(
      end.epoch < expected ? "the job is not finished: "
                           : "the logs do not show the whole job: ",
      complete, " of ", CountText(expected, "epoch"),
      complete == 1 || expected == 1 ? " is" : " are", " complete", missing);
}

absl::string_view ProofText(const audit::AuditEpoch& epoch, bool zeros) {
  switch (epoch.proof) {
    case audit::AuditEpoch::kProved:
      return zeros ? "every sample exactly once, damaged samples as empty rows"
                   : "every sample exactly once";
    case audit::AuditEpoch::kCounted:
      return zeros ? "every step once, with the right number of samples, "
                     "damaged samples as empty rows"
                   : "every step once, with the right number of samples";
    case audit::AuditEpoch::kWrong:
      return "WRONG";
    case audit::AuditEpoch::kIncomplete:
      return "incomplete";
  }
  return "";
}

absl::string_view ProofWord(const audit::AuditEpoch& epoch, bool zeros) {
  switch (epoch.proof) {
    case audit::AuditEpoch::kProved:
      return zeros ? "exactly_once_or_empty" : "exactly_once";
    case audit::AuditEpoch::kCounted:
      return "every_step_once";
    case audit::AuditEpoch::kWrong:
      return "wrong";
    case audit::AuditEpoch::kIncomplete:
      return "incomplete";
  }
  return "";
}

}  // namespace

absl::Status AuditFiles(const AuditFilesOptions& options) {
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                      UsageError(FindLogs(options.files)));
  std::vector<audit::AuditFile> files;
  for (const std::string& path : paths) {
    absl::StatusOr<audit::AuditFile> file = audit::ReadAuditFile(path);
    // Damage is a result of the audit, not a mistake on the command line.
    if (absl::IsDataLoss(file.status())) return file.status();
    if (!file.ok()) return UsageError(file.status());
    files.push_back(*std::move(file));
  }
  absl::StatusOr<audit::AuditResult> checked = audit::CheckAuditLogs(files);
  if (absl::IsInvalidArgument(checked.status())) {
    return UsageError(checked.status());
  }
  MR_ASSIGN_OR_RETURN(audit::AuditResult result, std::move(checked));
  Compared compared;
  if (!options.loader.endpoint.empty()) {
    MR_RETURN_IF_ERROR(ProveDropped(options, &result));
    MR_RETURN_IF_ERROR(Compare(options, &result, &compared));
  }
  const bool zeros = PolicyOf(result) == BadSamplePolicy::ZERO;
  if (zeros) {
    result.notes.push_back(
        "the policy ZERO sends a damaged sample as an empty row with its "
        "index. The logs contain indices only, so they do not show which or "
        "how many rows were empty. With --endpoint, the empty rows of the "
        "compared steps are counted; `millrace status` names damaged samples");
  } else if (PolicyOf(result) == BadSamplePolicy::SUBSTITUTE) {
    result.notes.push_back(
        "the policy SUBSTITUTE sends another sample instead of a damaged one. "
        "The logs contain the index of the sample that was sent, so they do "
        "not show which samples were replaced; `millrace status` names them");
  }

  uint64_t complete = 0;
  std::vector<std::vector<std::string>> table = {
      {"EPOCH", "STEPS", "SAMPLES", "RESULT"}};
  for (const audit::AuditEpoch& epoch : result.epochs) {
    if (epoch.proof == audit::AuditEpoch::kProved ||
        epoch.proof == audit::AuditEpoch::kCounted) {
      ++complete;
    }
    table.push_back(
        {absl::StrCat(epoch.epoch),
         absl::StrCat(epoch.steps, " of ", result.run.steps_per_epoch()),
         absl::StrCat(epoch.samples), std::string(ProofText(epoch, zeros))});
  }
  absl::Status verdict;
  if (compared.different > 0 && compared.different == result.problem_count) {
    constexpr size_t kNamed = 3;
    verdict = absl::DataLossError(absl::StrCat(
        compared.different, " of ",
        CountText(compared.steps, "compared step", "compared steps"),
        compared.different == 1 ? " differs" : " differ",
        " from the batches that the servers send now; the first: ",
        absl::StrJoin(absl::MakeConstSpan(result.problems)
                          .subspan(0, std::min(kNamed, result.problems.size())),
                      "; ")));
  } else if (result.problem_count > 0) {
    verdict = absl::DataLossError(absl::StrCat(
        result.damaged
            ? "the audit logs do not prove which samples the job received: "
            : "the job did not receive every sample exactly once: ",
        CountText(result.problem_count, "problem"),
        "; the first: ", result.problems[0]));
  } else if (complete < options.expect_epochs) {
    verdict = absl::FailedPreconditionError(
        UnfinishedText(result, complete, options.expect_epochs));
    result.AddProblem(std::string(verdict.message()));
  }
  program::Report report;
  report.Add("logs", "logs", uint64_t{paths.size()});
  report.Add("starts", "starts of the job", result.attempts);
  report.Add("records", "steps of all ranks", result.records);
  report.Add("superseded", "steps repeated after a restart or a seek",
             result.superseded);
  report.Add("plan_hash", "plan",
             absl::string_view(absl::BytesToHexString(result.run.plan_hash())));
  report.Add("fingerprint", "content",
             absl::string_view(result.run.fingerprint()));
  if (!options.loader.endpoint.empty()) {
    report.Add("compared", "steps compared with the servers", compared.steps);
    report.Add("compared_payloads", "", compared.payloads);
    report.Add("compared_different", "different steps", compared.different);
    report.Add("", "compared byte for byte",
               compared.payloads == compared.steps
                   ? absl::StrCat(compared.payloads)
                   : absl::StrCat(compared.payloads,
                                  " (for the other steps, the logs contain "
                                  "digests of the samples, not of the bytes)"));
    if (zeros) {
      report.Add("compared_empty_rows", "empty rows (damaged samples)",
                 compared.empty_rows);
    }
  }
  report.AddJson("epochs",
                 JsonList(result.epochs, [&](const audit::AuditEpoch& epoch) {
                   return JsonObject()
                       .Add("epoch", epoch.epoch)
                       .Add("steps", epoch.steps)
                       .Add("samples", epoch.samples)
                       .Add("result", ProofWord(epoch, zeros))
                       .Json();
                 }));
  report.AddJson("problems", JsonOf(result.problems));
  report.AddJson("notes", JsonOf(result.notes));
  if (options.json) {
    std::printf("%s\n", report.Json().c_str());
  } else {
    std::printf("%s\n%s", report.Text().c_str(), program::Table(table).c_str());
    for (const std::string& note : result.notes) {
      std::printf("note: %s\n", note.c_str());
    }
    for (const std::string& problem : result.problems) {
      std::printf("%s\n", problem.c_str());
    }
  }
  return verdict;
}

}  // namespace millrace::cli
