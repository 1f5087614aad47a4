#include "server/storage/tfrecord/tfrecord_format.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/brace_list.h"
#include "server/storage/one_suffix.h"
#include "server/storage/shard_paths.h"
#include "server/storage/tfrecord/example_options.h"
#include "server/storage/tfrecord/example_rule.h"
#include "server/storage/tfrecord/example_schema.h"
#include "server/storage/tfrecord/tfrecord_scanner.h"
#include "server/storage/unpack/packed_names.h"

namespace millrace::storage {
namespace {

// Of the files in a folder.
constexpr absl::string_view kSuffixes[] = {".tfrecord", ".tfrecord.gz",
                                           ".tfrecord.zst", ".tfrecord.zstd",
                                           ".tfrecord.bz2"};

// The ends of the names of compressed files.
constexpr absl::string_view kPackedEndings[] = {".gz", ".zst", ".zstd", ".bz2"};

// Both ways to number files are common: a-00000-of-00004.tfrecord,
// a.tfrecord-00000-of-00004. Compressed files may belong to a set of others.
absl::Status CheckNumbers(std::vector<std::string> files) {
  for (std::string& file : files) {
    for (const absl::string_view ending : kPackedEndings) {
      if (!absl::EndsWith(file, ending)) continue;
      file.resize(file.size() - ending.size());
      break;
    }
  }
  MR_RETURN_IF_ERROR(CheckNumberedNames(files, kSuffixes[0]));
  return CheckNumberedNames(files, "");
}

class Tfrecord : public ExtentFormat {
 public:
  absl::string_view scheme() const override { return "tfrecord"; }

  absl::StatusOr<ObjectList> List(const std::string& path,
                                  const FormatOptions& options) const override {
    MR_RETURN_IF_ERROR(ParseExampleOptions(options).status());
    MR_ASSIGN_OR_RETURN(ShardPaths shards,
                        FindShardsOfOneSuffix(path, kSuffixes));
    // A range of numbers names its files one by one; a glob takes what is
    // there.
    if (!shards.one_file && !HasBraces(path)) {
      MR_RETURN_IF_ERROR(CheckNumbers(shards.files));
    }
    ObjectList list;
    list.names = std::move(shards.files);
    list.packed = PackedByName(list.names);
    list.packed.instead =
        "decompress the files, or write them without compression";
    return list;
  }

  absl::StatusOr<std::unique_ptr<FieldRule>> NewRule(
      const ObjectList&, const FormatOptions& options,
      ObjectWindow& first) const override {
    MR_ASSIGN_OR_RETURN(const ExampleOptions parsed,
                        ParseExampleOptions(options));
    TfrecordScanner scanner(&first);
    MR_ASSIGN_OR_RETURN(const std::optional<IndexedRecord> record,
                        scanner.Next());
    if (!record.has_value()) {
      return absl::DataLossError("byte 0: the file has no record");
    }
    MR_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> extent,
                        first.At(record->offset, record->bytes));
    const absl::StatusOr<absl::Span<const uint8_t>> payload =
        CheckPayload(extent);
    if (!payload.ok()) {
      return absl::Status(payload.status().code(),
                          absl::StrCat("byte ", record->offset, ": ",
                                       payload.status().message()));
    }
    return InferExampleRule(*payload, parsed);
  }

  absl::StatusOr<std::unique_ptr<FieldRule>> RestoreRule(
      absl::string_view encoded) const override {
    return ExampleRule::Restore(encoded);
  }

  absl::StatusOr<std::unique_ptr<RecordScanner>> Scan(
      ObjectWindow& window, const FieldRule&) const override {
    return std::make_unique<TfrecordScanner>(&window);
  }
};

}  // namespace

const ExtentFormat& TfrecordFormat() {
  static const Tfrecord format;
  return format;
}

}  // namespace millrace::storage
