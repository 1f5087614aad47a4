// millrace-data index: lists an image folder, hashes its content, and keeps
// both in the cache folder of the server.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/cgroup.h"
#include "common/count_text.h"
#include "common/first_of.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/usage_error.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/progress.h"
#include "server/data_tool/report.h"
#include "server/operators/operators.h"
#include "server/storage/imagefolder/content_index.h"

namespace millrace::data_tool {
namespace {

// Reads wait for storage more than they compute.
constexpr uint32_t kMinIndexThreads = 8;

absl::Status Index(const std::string& input, const std::string& cache_dir,
                   const std::vector<std::string>& libraries,
                   std::ostream& out) {
  const absl::Time start = absl::Now();
  MR_ASSIGN_OR_RETURN(const auto operators,
                      UsageError(operators::Operators::Load(libraries)));
  absl::string_view folder = input;
  absl::ConsumePrefix(&folder, "imagefolder:");
  std::optional<ToolProgress> progress;
  const auto update = [&progress](int64_t files, int64_t all, int64_t bytes) {
    if (!progress.has_value()) progress.emplace("indexing", all);
    progress->Update(files, bytes);
    return StopSignals::signal() == 0;
  };
  const auto indexed = storage::IndexImageFolder(
      std::string(folder),
      {.cache_dir = cache_dir, .operators = operators.get()},
      std::max(kMinIndexThreads, AvailableCpus()), update);
  progress.reset();  // before any output
  MR_RETURN_IF_ERROR(indexed.status());
  const DatasetInfo& info = indexed->info;
  if (indexed->bad_count > 0) {
    Warn("index",
         {absl::StrCat(
             CountText(indexed->bad_count, "file"),
             indexed->bad_count == 1 ? " is" : " are",
             " not a JPEG, PNG or WebP image; a batch with such a sample fails "
             "or substitutes it (docs/operations.md): ",
             FirstOf(indexed->bad, ", ", indexed->bad_count))});
  }
  out << absl::StreamFormat(
      "indexed %s (%s) in %s of imagefolder:%s: fingerprint %s, index %s, %.1f "
      "s\n",
      CountText(info.samples(), "sample"), SizeText(info.shards(0).bytes()),
      CountText(info.schema().fields(1).num_classes(), "class", "classes"),
      Readable(folder), info.fingerprint(), Readable(indexed->file),
      absl::ToDoubleSeconds(absl::Now() - start));
  return absl::OkStatus();
}

}  // namespace

int RunIndex(const std::vector<std::string>& args, std::ostream& out) {
  std::string input;
  std::string cache_dir;
  std::vector<std::string> libraries;
  program::FlagSet flags(
      {.command = "millrace-data index",
       .summary =
           "Lists the files of a folder that millrace-server serves as "
           "imagefolder:DIR, reads each file once, and writes list and content "
           "hash to the cache folder of the server. The folder then has the "
           "fingerprint of its packed dataset, and copies of it on other "
           "servers have the same one. Without `index` the server lists the "
           "folder itself, and the fingerprint follows from names, sizes and "
           "times of modification.",
       .examples = {"millrace-data index --input=/data/photos/train"}});
  flags.Add("input", &input, "DIR",
            "Folder that contains one folder of images for each class");
  AddCacheDirFlag(flags, &cache_dir);
  flags.Add("operators", &libraries, "FILE.so",
            "Library of decoders that the server loads, too; may be repeated");
  int exit_code;
  if (!ParseOrLeave(flags, args, "index", out, &exit_code)) return exit_code;
  if (input.empty()) {
    return Report("index", UsageError(absl::InvalidArgumentError(
                               "--input is missing; set it to the folder that "
                               "contains the class folders")));
  }
  if (cache_dir == "off") {
    return Report("index",
                  UsageError(absl::InvalidArgumentError(
                      "--cache_dir=off leaves no folder for the index; set "
                      "--cache_dir to a folder, or leave the flag out")));
  }
  const StopSignals signals;
  return Report("index", Index(input, cache_dir, libraries, out));
}

}  // namespace millrace::data_tool
