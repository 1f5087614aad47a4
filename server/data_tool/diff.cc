// millrace-data diff: compares the content of two datasets.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_budget.h"
#include "common/count_text.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/usage_error.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/dataset_diff.h"
#include "server/data_tool/known_classes.h"
#include "server/data_tool/progress.h"
#include "server/data_tool/report.h"
#include "server/operators/operators.h"
#include "server/storage/open_options.h"

namespace millrace::data_tool {
namespace {

// Of decoded Parquet row groups, for each dataset.
constexpr uint64_t kCacheBytes = 256 << 20;

struct DiffOptions {
  std::string a;
  std::string b;
  int64_t max_differences = 10;
  std::string cache_dir;
  std::vector<std::string> libraries;
};

// Takes B out of "A B", because a FlagSet has one argument. Empty: there is no
// such pair of words.
std::string TakeSecondUri(std::vector<std::string>* args) {
  const auto is_word = [](const std::string& arg) {
    return !absl::StartsWith(arg, "-");
  };
  // A value that stands behind its flag is a word, too, so the last pair
  // counts.
  for (size_t i = args->size(); i-- > 1;) {
    if (!is_word((*args)[i]) || !is_word((*args)[i - 1])) continue;
    std::string second = std::move((*args)[i]);
    args->erase(args->begin() + static_cast<ptrdiff_t>(i));
    return second;
  }
  return "";
}

absl::Status Diff(const DiffOptions& options, bool* equal, std::ostream& out) {
  MR_ASSIGN_OR_RETURN(
      const auto operators,
      UsageError(operators::Operators::Load(options.libraries)));
  ByteBudget cache(2 * kCacheBytes);
  const storage::OpenSourceOptions open = {.cache_budget = &cache,
                                           .cache_bytes = kCacheBytes,
                                           .cache_dir = options.cache_dir,
                                           .operators = operators.get()};
  MR_ASSIGN_OR_RETURN(const OpenedSource a,
                      OpenWithClasses(options.a, open, /*skip_bad=*/true));
  MR_ASSIGN_OR_RETURN(const OpenedSource b,
                      OpenWithClasses(options.b, open, /*skip_bad=*/true));
  std::optional<ToolProgress> progress(
      std::in_place, "comparing",
      std::min(a.source->info().samples(), b.source->info().samples()));
  const auto diff =
      DiffDatasets(*a.source, *b.source,
                   {.max_differences = options.max_differences,
                    .progress = [&progress](int64_t samples, int64_t bytes) {
                      progress->Update(samples, bytes);
                      return StopSignals::signal() == 0;
                    }});
  progress.reset();  // before any output
  for (const OpenedSource* opened : {&a, &b}) {
    if (!opened->doubt.empty()) Warn("diff", {opened->doubt});
  }
  MR_RETURN_IF_ERROR(diff.status());
  *equal = diff->count == 0;
  if (*equal) {
    out << absl::StreamFormat(
        "equal: %s (%s), %s, fingerprint of the content %s\n",
        CountText(diff->samples, "sample"), SizeText(diff->bytes),
        CountText(a.source->info().schema().fields_size(), "field"),
        diff->fingerprint);
    return absl::OkStatus();
  }
  for (const std::string& line : diff->first) out << line << "\n";
  out << "different: " << CountText(diff->count, "difference");
  if (diff->count > static_cast<int64_t>(diff->first.size())) {
    out << ", of which " << diff->first.size()
        << " are listed (--max_differences)";
  }
  out << "; " << diff->different_samples << " of "
      << CountText(diff->samples, "compared sample") << " differ\n";
  return absl::OkStatus();
}

}  // namespace

int RunDiff(const std::vector<std::string>& args, std::ostream& out) {
  DiffOptions options;
  program::FlagSet flags(
      {.command = "millrace-data diff",
       .summary =
           "Compares the content of two datasets of any formats: number of "
           "samples, fields with their types and classes, and the bytes of "
           "each field of each sample. Reads both completely. The exit code is "
           "0 if they are equal and 1 if they differ. Equal datasets have "
           "equal batches, and equal fingerprints if both have a content hash.",
       .argument = "A B",
       .examples = {
           "millrace-data diff tar:/data/train-0.tar lmdb:/data/train.lmdb"}});
  flags.Add("max_differences", &options.max_differences, "N",
            "Number of differences to list; all are counted");
  flags.Add("operators", &options.libraries, "FILE.so",
            "Library of a source that reads a dataset; may be repeated");
  AddCacheDirFlag(flags, &options.cache_dir);
  std::vector<std::string> rest = args;
  options.b = TakeSecondUri(&rest);
  int exit_code;
  if (!ParseOrLeave(flags, rest, "diff", out, &exit_code)) return exit_code;
  options.a = flags.argument();
  if (options.b.empty()) {
    return Report("diff", UsageError(absl::InvalidArgumentError(absl::StrCat(
                              "the second dataset is missing: write "
                              "`millrace-data diff ",
                              options.a, " URI`, the two side by side"))));
  }
  if (options.max_differences < 0) {
    return Report("diff", UsageError(absl::InvalidArgumentError(absl::StrCat(
                              "--max_differences is ", options.max_differences,
                              "; it must be at least 0"))));
  }
  const StopSignals signals;
  bool equal = false;
  const absl::Status status = Diff(options, &equal, out);
  if (!status.ok()) return Report("diff", status);
  return equal ? program::kExitOk : program::kExitFailed;
}

}  // namespace millrace::data_tool
