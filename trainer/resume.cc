#include "trainer/resume.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/audit/spec_difference.h"
#include "client/receive/open_host_loader.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "trainer/files.h"

namespace millrace::trainer {

namespace {

absl::Status OtherFlags(const std::string& file,
                        const std::vector<std::string>& changed) {
  return absl::InvalidArgumentError(absl::StrCat(
      file, " was written with other flags: ", absl::StrJoin(changed, "; "),
      ". Resume with the flags of the checkpoint, or start again "
      "without --resume"));
}

// "drop" of LAST_BATCH_DROP.
std::string LastBatchWord(const std::string& name) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, "LAST_BATCH_"));
}

std::string DatasetOf(const PipelineSpec& spec) {
  return spec.sources_size() == 1 ? spec.sources(0).dataset() : "";
}

}  // namespace

std::string ChangedFlags(const PipelineSpec& before, const PipelineSpec& now) {
  std::vector<std::string> changed;
  const auto add = [&changed](absl::string_view flag,
                              absl::string_view old_value,
                              absl::string_view new_value) {
    changed.push_back(absl::StrCat("--", flag, "=", old_value, ", now --", flag,
                                   "=", new_value));
  };
  for (const audit::FieldDifference& field :
       audit::DifferencesOf(before, now)) {
    if (field.name == "seed" || field.name == "batch_size") {
      add(field.name, field.before, field.after);
    } else if (field.name == "last_batch") {
      add(field.name, LastBatchWord(field.before), LastBatchWord(field.after));
    } else if (field.name == "sources" && DatasetOf(before) != DatasetOf(now) &&
               !DatasetOf(before).empty() && !DatasetOf(now).empty()) {
      add("dataset", DatasetOf(before), DatasetOf(now));
    } else {
      changed.push_back(absl::StrCat(
          field.name,
          field.name == "sources"
              ? " (--dataset, --train_subset, --eval_subset, --pipeline): "
          : field.name == "outputs" ? " (--outputs, --pipeline): "
                                    : " (--preset, --pipeline): ",
          field.before, ", now ", field.after));
    }
  }
  return absl::StrJoin(changed, "; ");
}

absl::Status NameChangedFlags(const absl::Status& error,
                              const ResumePoint& point,
                              HostLoaderOptions options) {
  if (!absl::IsFailedPrecondition(error) || !point.info.pipeline.has_value()) {
    return error;
  }
  options.expected_plan_hash.clear();
  options.expected_fingerprint.clear();
  options.start = {};
  options.window = 2;
  const auto loader = receive::OpenHostLoader(options);
  if (!loader.ok()) return error;
  const std::string changed =
      ChangedFlags(*point.info.pipeline, (*loader)->plan().resolved_spec());
  return changed.empty() ? error : OtherFlags(point.file, {changed});
}

bool ResumePoint::Holds(absl::string_view part) const {
  return std::find(info.parts.begin(), info.parts.end(), part) !=
         info.parts.end();
}

absl::StatusOr<ResumePoint> FindResumePoint(const TrainerConfig& config,
                                            const std::string& model) {
  if (config.resume.empty()) return ResumePoint();
  const bool automatic = config.resume == "auto";
  ResumePoint point;
  point.file = automatic ? config.checkpoint : config.resume;
  if (const absl::Status found = CheckReadable(point.file);
      absl::IsNotFound(found)) {
    if (automatic) return ResumePoint();
    return UsageError(found);
  }
  MR_ASSIGN_OR_RETURN(point.info, UsageError(ReadCheckpointInfo(point.file)));
  const CheckpointInfo& info = point.info;
  std::vector<std::string> changed;
  if (info.model != model) {
    changed.push_back(absl::StrCat(
        "--model=", info.model, ", now --model=", model,
        absl::StartsWith(model, "torchscript:")
            ? " (a TorchScript file is identified by the hash of its content)"
            : ""));
  }
  if (info.optimizer != config.optimizer) {
    changed.push_back(absl::StrCat("--optimizer=", info.optimizer,
                                   ", now --optimizer=", config.optimizer));
  }
  if (!changed.empty()) return OtherFlags(point.file, changed);
  if (config.ema == 0 && point.Holds("average")) {
    return absl::InvalidArgumentError(absl::StrCat(
        point.file,
        " holds averaged weights, which only --ema continues; give --ema"));
  }
  if (info.position.step % config.accumulate != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        point.file, " was written after ", info.position.step,
        " batches of an epoch, which --accumulate=", config.accumulate,
        " does not divide; resume with --accumulate=", info.accumulate));
  }
  return point;
}

}  // namespace millrace::trainer
