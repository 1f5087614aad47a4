// `millrace audit`: receives an epoch for all ranks of a job and proves that
// each sample comes exactly once.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/audit_files.h"
#include "client/cli/commands.h"
#include "client/cli/digest.h"
#include "client/cli/spec_flags.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "common/count_text.h"
#include "common/flag_needs.h"
#include "common/json_text.h"
#include "common/program/flag_set.h"
#include "common/program/report.h"
#include "common/status_macros.h"

namespace millrace::cli {
namespace {

constexpr uint32_t kMaxRanks = 1024;
// The windows of all ranks together.
constexpr uint64_t kWindowBytes = 256 << 20;

// The loader of one rank, and the samples that it received.
struct Rank {
  std::unique_ptr<HostLoader> loader;
  EpochAudit audit;
  absl::Status status;
};

absl::Status Receive(Rank& rank) {
  while (true) {
    absl::StatusOr<HostBatch> batch = rank.loader->Next();
    if (absl::IsOutOfRange(batch.status())) return absl::OkStatus();
    MR_RETURN_IF_ERROR(batch.status());
    MR_RETURN_IF_ERROR(rank.audit.Add(batch->header, batch->payload));
  }
}

// The rows that DROP leaves out of the epoch, which PARTIAL sends in one more
// step. The policy ZERO names damaged samples and replaces none.
absl::StatusOr<EpochAudit> ReceiveDropped(HostLoaderOptions options,
                                          const OpenResponse& plan,
                                          uint64_t epoch) {
  options.spec = plan.resolved_spec();
  options.spec.set_last_batch(LAST_BATCH_PARTIAL);
  options.spec.mutable_bad_samples()->set_action(BadSamplePolicy::ZERO);
  options.start = {epoch, plan.steps_per_epoch()};
  options.expected_plan_hash.clear();
  options.expected_fingerprint = plan.fingerprint();
  EpochAudit dropped;
  for (uint32_t i = 0; i < options.world_size; ++i) {
    options.rank = i;
    Rank rank;
    MR_ASSIGN_OR_RETURN(rank.loader,
                        OfRequest(receive::OpenHostLoader(options)));
    MR_RETURN_IF_ERROR(Receive(rank));
    dropped.Merge(rank.audit);
  }
  return dropped;
}

// How the policy for damaged samples changed an epoch that is otherwise
// correct; empty when it did not.
std::string PolicyNote(const EpochVerdict& verdict) {
  if (verdict.empty_rows > 0) {
    return absl::StrCat(
        "every sample exactly once, damaged samples as empty rows: the policy "
        "ZERO sent ",
        CountText(verdict.empty_rows, "damaged sample"),
        " as empty rows with their indices; `millrace status` names damaged "
        "samples");
  }
  if (verdict.replaced > 0) {
    return absl::StrCat(
        "every step once, with the right number of samples: the policy "
        "SUBSTITUTE sends another sample instead of a damaged one, and ",
        verdict.replaced_is_min ? "at least " : "",
        CountText(verdict.replaced, "sample"),
        verdict.replaced == 1 ? " was" : " were",
        " replaced; `millrace status` names them");
  }
  return "";
}

}  // namespace

absl::Status RunAudit(absl::Span<const std::string> arguments) {
  SpecFlags spec_flags;
  uint64_t epoch = 0;
  bool json = false;
  AuditFilesOptions files;
  program::FlagSet flags(
      {.command = "millrace audit",
       .summary = "Receives an epoch for all ranks of a job and proves that "
                  "each sample comes exactly once. With --files: proves it for "
                  "a job that has run, from its audit logs.",
       .examples = {"millrace audit --endpoint=data-1:7001 --dataset=photos "
                    "--world=4",
                    "millrace audit --files=/runs/7/audit"}});
  spec_flags.AddTo(flags);
  spec_flags.loader.AddHedging(flags);
  flags.Group("Audit");
  spec_flags.loader.AddWorld(flags);
  flags.Add("epoch", &epoch, "N", "Epoch to receive, from 0");
  flags.Add("files", &files.files, "DIR",
            "Folder with the audit logs of all ranks and starts of a job; with "
            "--endpoint, steps are compared with the batches of the servers");
  flags
      .Add("compare", &files.compare, "N",
           "With --endpoint: number of steps to compare, spread over the job "
           "and its ranks")
      .Needs({"files"});
  flags
      .Add("expect_epochs", &files.expect_epochs, "N",
           "Fail when fewer epochs are complete; 0: any number is enough")
      .Needs({"files"});
  flags.Add("json", &json, "", "Print one JSON object");
  MR_RETURN_IF_ERROR(flags.Parse(arguments));
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return absl::OkStatus();
  }
  if (!files.files.empty()) {
    if (spec_flags.SaysWhatToLoad() || flags.Given("world") ||
        flags.Given("epoch")) {
      return UsageError(absl::InvalidArgumentError(
          "the logs of --files name the data: leave --dataset, --preset, "
          "--pipeline, --outputs, --batch_size, --seed, --last_batch, "
          "--compression, --world and --epoch out"));
    }
    for (const char* hedge : {"hedge_share", "hedge_floor"}) {
      if (!flags.Given(hedge)) continue;
      return UsageError(absl::InvalidArgumentError(
          absl::StrCat("--", hedge,
                       " has no effect with --files, which requests each step "
                       "by itself; leave --",
                       hedge, " out")));
    }
    MR_RETURN_IF_ERROR(UsageError(CheckFlagNeeds(
        {{"compare", {"endpoint"}},
         {"timeout", {"endpoint"}},
         {"step_timeout", {"endpoint"}},
         {"same_host", {"endpoint"}}},
        [&flags](absl::string_view name) { return flags.Given(name); })));
    MR_RETURN_IF_ERROR(UsageError(spec_flags.ValidateHow()));
    files.loader = spec_flags.MakeOptions();
    files.json = json;
    return AuditFiles(files);
  }
  MR_RETURN_IF_ERROR(UsageError(spec_flags.Validate()));
  const uint32_t world = spec_flags.loader.options.world_size;
  if (world > kMaxRanks) {
    return UsageError(absl::InvalidArgumentError(
        absl::StrCat("flag --world=", world, ": expected 1 to ", kMaxRanks)));
  }

  HostLoaderOptions options = spec_flags.MakeOptions();
  options.read_only_payload = true;
  options.window_bytes = kWindowBytes / world;
  options.start = {epoch, 0};
  options.epochs = 1;
  options.verify_payload = true;
  MR_ASSIGN_OR_RETURN(options.spec, spec_flags.MakeSpec());
  MR_RETURN_IF_ERROR(UsageError(CheckShares(options.spec, world)));

  std::vector<Rank> ranks(world);
  for (uint32_t i = 0; i < world; ++i) {
    options.rank = i;
    MR_ASSIGN_OR_RETURN(ranks[i].loader,
                        OfRequest(receive::OpenHostLoader(options)));
    // All ranks must get the same plan.
    options.expected_plan_hash = ranks[0].loader->plan().plan_hash();
    options.expected_fingerprint = ranks[0].loader->plan().fingerprint();
  }
  std::vector<std::thread> threads;
  for (Rank& rank : ranks) {
    threads.emplace_back([&rank] { rank.status = Receive(rank); });
  }
  for (std::thread& thread : threads) thread.join();

  EpochAudit audit;
  uint64_t retried = 0;
  for (const Rank& rank : ranks) {
    MR_RETURN_IF_ERROR(rank.status);
    audit.Merge(rank.audit);
    retried += rank.loader->stats().retried_steps;
  }
  const OpenResponse& plan = ranks[0].loader->plan();
  const uint64_t dropped = plan.dropped_per_epoch();
  const uint64_t expected = plan.samples_per_epoch() - dropped;
  const auto policy = plan.resolved_spec().bad_samples().action();
  // A dropped sample may have taken the place of a damaged one.
  std::optional<EpochAudit> rest;
  if (policy == BadSamplePolicy::SUBSTITUTE && dropped > 0 &&
      !HasSchedule(plan)) {
    MR_ASSIGN_OR_RETURN(rest, ReceiveDropped(options, plan, epoch));
  }
  const EpochVerdict verdict =
      JudgeEpoch(audit, plan, epoch, rest.has_value() ? &*rest : nullptr);

  program::Report report;
  report.Add("", "samples of the plan", plan.samples_per_epoch());
  report.Add("samples", "samples received", audit.samples());
  report.Add("distinct", "distinct samples", audit.distinct());
  report.Add("missing", "missing", verdict.missing);
  report.Add("duplicates", "duplicates", verdict.duplicates);
  report.Add("dropped", "dropped at the end of the epoch", dropped);
  report.Add("order_digest", "order digest",
             absl::string_view(DigestText(audit.order_digest())));
  report.Add("content_digest", "content digest",
             absl::string_view(DigestText(audit.content_digest())));
  report.Add("", "steps requested again", retried);
  if (policy == BadSamplePolicy::ZERO) {
    report.Add("empty_rows", "empty rows (damaged)", verdict.empty_rows);
  } else if (policy == BadSamplePolicy::SUBSTITUTE) {
    report.Add("replaced", "replaced (damaged)", verdict.replaced);
  }
  const bool once = verdict.missing == 0 && verdict.duplicates == 0 &&
                    audit.samples() + verdict.empty_rows <= expected;
  const std::string note = once ? PolicyNote(verdict) : "";
  report.AddJson("notes", JsonOf(note.empty() ? std::vector<std::string>()
                                              : std::vector{note}));
  if (json) {
    std::printf("%s\n", report.Json().c_str());
  } else {
    std::fputs(report.Text().c_str(), stdout);
    if (!note.empty()) std::printf("note: %s\n", note.c_str());
  }
  if (!once) {
    return absl::DataLossError(absl::StrCat(
        "the epoch was not delivered exactly once: of ",
        CountText(expected, "expected sample"), ", ", audit.distinct(),
        " distinct samples came, ", verdict.missing, " are missing and ",
        verdict.duplicates, " came again"));
  }
  return absl::OkStatus();
}

}  // namespace millrace::cli
