#include "trainer/failed_batch.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/batch_files/batch_files.h"
#include "client/receive/open_host_loader.h"
#include "common/folder.h"
#include "common/program/report.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "common/write_target.h"

namespace millrace::trainer {
namespace {

// Of one position, in one folder of --failed_batch.
constexpr int kMaxFolders = 100;

// " --position=0:17 --rank=1 --world=4"
std::string PlaceFlags(const HostLoaderOptions& options) {
  return absl::StrCat(" --position=", options.start.epoch, ":",
                      options.start.step, " --rank=", options.rank,
                      " --world=", options.world_size);
}

// "image: 3 NaN and 0 infinite, the first in row 5"
std::string Wrong(const batch_files::BatchArray& array) {
  const std::optional<uint64_t> row = batch_files::FirstBadRow(array);
  if (!row.has_value()) return "";
  return absl::StrCat(array.name, ": ", array.look.nans, " NaN and ",
                      array.look.infinities, " infinite, the first in row ",
                      *row);
}

// Writes the batch to the folder `first`, or where that exists to `first`-2 and
// so on, because the files there may be the user's own. A restarted job that
// fails at the same step again leaves its batch as it is. Returns the folder.
absl::StatusOr<std::string> Place(
    const std::vector<batch_files::BatchArray>& arrays, const std::string& json,
    const std::string& first) {
  absl::Status written;
  for (int i = 1; i <= kMaxFolders; ++i) {
    const std::string place = i == 1 ? first : absl::StrCat(first, "-", i);
    if (batch_files::HasBatchFiles(arrays, json, place)) return place;
    written = batch_files::WriteBatchFiles(
        arrays, json, place, batch_files::Folder::kIsNew, "--failed_batch=DIR");
    if (written.ok()) return place;
    if (!absl::IsAlreadyExists(written)) break;
  }
  return written;
}

absl::StatusOr<std::string> SaveFailedBatch(HostLoaderOptions options,
                                            const std::string& folder) {
  const Position position = options.start;
  options.epochs = 1;
  options.window = 2;  // the minimum
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<HostLoader> loader,
                      receive::OpenHostLoader(options));
  MR_ASSIGN_OR_RETURN(const HostBatch batch, loader->Next());
  const OpenResponse& plan = loader->plan();

  const std::vector<batch_files::BatchArray> arrays =
      batch_files::ArraysOf(batch);
  std::vector<std::string> wrong;
  for (const batch_files::BatchArray& array : arrays) {
    if (std::string text = Wrong(array); !text.empty()) {
      wrong.push_back(std::move(text));
    }
  }
  // The keys that `millrace replay --run=FILE` reads.
  program::Report json;
  json.Add("epoch", "", position.epoch);
  json.Add("step", "", position.step);
  json.Add("rank", "", uint64_t{options.rank});
  json.Add("world_size", "", uint64_t{options.world_size});
  json.Add("rows", "", batch.rows);
  json.Add("endpoint", "", absl::string_view(options.endpoint));
  json.Add("plan_hash", "",
           absl::string_view(absl::BytesToHexString(plan.plan_hash())));
  json.Add("fingerprint", "", absl::string_view(plan.fingerprint()));
  json.Add("pipeline", "",
           absl::string_view(plan.resolved_spec().ShortDebugString()));
  json.AddJson("tensors", batch_files::ToJson(arrays));
  MR_RETURN_IF_ERROR(MakeFolders(folder));
  MR_ASSIGN_OR_RETURN(
      const std::string place,
      Place(arrays, json.Json() + "\n",
            absl::StrCat(folder, "/epoch-", position.epoch, "-step-",
                         position.step, "-rank-", options.rank)));
  return absl::StrCat(
      "its batch is in ", place, " (",
      wrong.empty() ? "all of its numbers are finite"
                    : absl::StrJoin(wrong, "; "),
      "); to refetch it with the random choices of each row: millrace replay "
      "--run=",
      ShellWord(place + "/batch.json"), PlaceFlags(options),
      " --output=", ShellWord(place + ".replay"));
}

}  // namespace

std::string KeepFailedBatch(const HostLoaderOptions& options,
                            const TrainerConfig& config) {
  std::string folder = config.failed_batch;
  if (folder.empty() && !config.checkpoint.empty()) {
    folder = config.checkpoint + ".failed_batch";
  }
  absl::StatusOr<std::string> kept =
      absl::FailedPreconditionError("--failed_batch is not given");
  if (!folder.empty()) kept = SaveFailedBatch(options, folder);
  if (kept.ok()) return *kept;
  return absl::StrCat("its batch is not saved (", kept.status().message(),
                      "); ", HowToFetch(options, config));
}

std::string HowToFetch(const HostLoaderOptions& options,
                       const TrainerConfig& config) {
  const std::string file = !config.json.empty() && !IsSpecialFile(config.json)
                               ? config.json
                               : config.AuditFile(options.rank);
  if (!file.empty()) {
    return absl::StrCat("to fetch it: millrace replay --run=", ShellWord(file),
                        PlaceFlags(options), " --output=DIR");
  }
  if (config.train_subset.empty() && config.eval_subset.empty()) {
    return absl::StrCat("to fetch it: millrace replay", PlaceFlags(options),
                        " --output=DIR and the flags of this run that name the "
                        "data");
  }
  return "to see it, run again with --failed_batch=DIR (no flag of `millrace "
         "replay` names a subset, and without --json and --audit_dir no file "
         "of this run does)";
}

}  // namespace millrace::trainer
