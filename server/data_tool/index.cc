// millrace-data index: makes the index of an image folder or of records in
// files, with the hash of the content, in the cache folder of the server.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/count_text.h"
#include "common/first_of.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/usage_error.h"
#include "server/data_tool/commands.h"
#include "server/data_tool/field_text.h"
#include "server/data_tool/indexing.h"
#include "server/data_tool/report.h"
#include "server/operators/operators.h"
#include "server/storage/schemes.h"

namespace millrace::data_tool {
namespace {

absl::Status Index(const std::string& uri, bool headers_only,
                   const std::string& cache_dir,
                   const std::vector<std::string>& libraries,
                   std::ostream& out) {
  const absl::Time start = absl::Now();
  MR_ASSIGN_OR_RETURN(const auto operators,
                      UsageError(operators::Operators::Load(libraries)));
  const auto indexed = IndexWithProgress(
      uri, {.cache_dir = cache_dir, .operators = operators.get()},
      headers_only);
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
  if (indexed->content_kept) {
    out << absl::StreamFormat(
        "%s has the content hash already; kept: fingerprint %s, index %s\n",
        Readable(uri), info.fingerprint(), Readable(indexed->file));
    return absl::OkStatus();
  }
  int64_t bytes = 0;
  for (const ShardInfo& shard : info.shards()) bytes += shard.bytes();
  const Field* const label = ClassField(info);
  out << absl::StreamFormat(
      "indexed %s (%s)%s of %s: fingerprint %s%s, index %s, %.1f s\n",
      CountText(info.samples(), "sample"), SizeText(bytes),
      label == nullptr ? ""
                       : absl::StrCat(" in ", CountText(label->num_classes(),
                                                        "class", "classes")),
      Readable(uri), info.fingerprint(),
      headers_only ? " (of names, sizes and times)" : "",
      Readable(indexed->file), absl::ToDoubleSeconds(absl::Now() - start));
  return absl::OkStatus();
}

}  // namespace

int RunIndex(const std::vector<std::string>& args, std::ostream& out) {
  std::string input;
  std::string cache_dir;
  std::vector<std::string> libraries;
  bool headers_only = false;
  const bool by_flag =
      std::any_of(args.begin(), args.end(), [](const std::string& arg) {
        return absl::StartsWith(arg, "--input") ||
               absl::StartsWith(arg, "-input");
      });
  program::FlagSet flags(
      {.command = "millrace-data index",
       .summary =
           "Finds the samples of a dataset that millrace-server serves without "
           "packing (imagefolder:DIR, csv:PATH, tar:PATH, tfrecord:PATH, "
           "mds:PATH, litdata:PATH, arrow:PATH, and lmdb:PATH of other "
           "programs), reads each of them once, and writes their list and "
           "content hash to the server's cache folder. "
           "The dataset then has the fingerprint of its packed form, and "
           "copies of it on other servers have the same one. Without `index` "
           "the server lists the dataset itself, and the fingerprint follows "
           "from names, sizes and times of modification.",
       .argument = by_flag ? "" : "URI",
       .examples = {"millrace-data index imagefolder:/data/photos/train",
                    "millrace-data index 'tar:/data/train-{000..099}.tar'"}});
  flags.Add("input", &input, "URI",
            "The same as the argument URI; a path without a scheme is a folder "
            "that contains one folder of images for each class");
  flags.Add(
      "headers_only", &headers_only, "",
      "Read only the headers of tar members and TFRecords, the tables of MDS "
      "and LitData files, or the table of csv: fast, but without the content "
      "hash. An up-to-date index with a content hash is kept. Not for "
      "imagefolder:, arrow: and lmdb:");
  AddCacheDirFlag(flags, &cache_dir);
  flags.Add("operators", &libraries, "FILE.so",
            "Library of decoders that the server loads, too; may be repeated");
  int exit_code;
  if (!ParseOrLeave(flags, args, "index", out, &exit_code)) return exit_code;
  std::string uri = flags.argument();
  if (by_flag) {
    uri =
        storage::HasScheme(input) ? input : absl::StrCat("imagefolder:", input);
  }
  if (cache_dir == "off") {
    return Report("index",
                  UsageError(absl::InvalidArgumentError(
                      "--cache_dir=off leaves no folder for the index; set "
                      "--cache_dir to a folder, or leave the flag out")));
  }
  const StopSignals signals;
  return Report("index", Index(uri, headers_only, cache_dir, libraries, out));
}

}  // namespace millrace::data_tool
