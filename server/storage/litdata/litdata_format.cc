#include "server/storage/litdata/litdata_format.h"

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/chunks/bytes_note.h"
#include "server/storage/chunks/column_choice.h"
#include "server/storage/chunks/column_rule.h"
#include "server/storage/chunks/offset_table.h"
#include "server/storage/litdata/litdata_index.h"
#include "server/storage/litdata/litdata_leaf.h"

namespace millrace::storage {
namespace {

// The first bytes of a chunk with compressed batches of samples.
constexpr absl::string_view kFramedStart("LDFZ01\0\0", 8);
// The last bytes of a chunk with its rows in Arrow's format.
constexpr absl::string_view kArrowEnd("LDARW01\0", 8);

absl::StatusOr<bool> HasBytes(ObjectWindow& window, uint64_t at,
                              absl::string_view expected) {
  MR_ASSIGN_OR_RETURN(const auto bytes, window.At(at, expected.size()));
  return std::memcmp(bytes.data(), expected.data(), expected.size()) == 0;
}

// Opens the table of a chunk whose samples are stored one by one.
absl::StatusOr<std::unique_ptr<OffsetTableScanner>> OpenChunk(
    ObjectWindow& window) {
  if (window.size() >= kFramedStart.size()) {
    MR_ASSIGN_OR_RETURN(const bool framed, HasBytes(window, 0, kFramedStart));
    if (framed) {
      return absl::UnimplementedError(
          "byte 0: the samples are compressed in batches (zstd), and "
          "config.compression and config.compression_level of index.json do "
          "not say so: write the dataset again");
    }
  }
  OffsetTableOptions options;
  options.trailer_end = std::string(kArrowEnd);
  MR_ASSIGN_OR_RETURN(auto scanner,
                      OffsetTableScanner::Create(window, std::move(options)));
  // Where the rows are in Arrow's format alone, the table is full of samples
  // without bytes.
  const uint64_t table = scanner->table_end();
  if (scanner->records() == 0 || window.size() - table < kArrowEnd.size()) {
    return scanner;
  }
  MR_ASSIGN_OR_RETURN(const uint64_t samples_end, scanner->LastOffset());
  if (samples_end != table) return scanner;
  MR_ASSIGN_OR_RETURN(
      const bool arrow,
      HasBytes(window, window.size() - kArrowEnd.size(), kArrowEnd));
  if (!arrow) return scanner;
  return absl::UnimplementedError(absl::StrCat(
      "byte ", table,
      ": the samples are rows of an Arrow table (litdata stores dictionaries "
      "of plain Python values so where pyarrow is installed): give litdata "
      "typed values (litdata.types.Image, Jpeg, a tensor), write Parquet "
      "files, or write the dataset where pyarrow is not installed"));
}

class Litdata final : public ExtentFormat {
 public:
  absl::string_view scheme() const override { return "litdata"; }

  absl::StatusOr<ObjectList> List(const std::string& path,
                                  const FormatOptions& options) const override {
    MR_RETURN_IF_ERROR(CheckChunkOptions(scheme(), options));
    return ListLitdataChunks(path);
  }

  absl::StatusOr<std::unique_ptr<FieldRule>> NewRule(
      const ObjectList& objects, const FormatOptions& options,
      ObjectWindow& first) const override {
    MR_RETURN_IF_ERROR(CheckChunkOptions(scheme(), options));
    MR_ASSIGN_OR_RETURN(const std::vector<LitdataLeaf> leaves,
                        ParseLitdataLeaves(objects.description));
    std::vector<ColumnDraft> drafts;
    for (const LitdataLeaf& leaf : leaves) {
      drafts.push_back(DraftOfLeaf(leaf.name, leaf.unnamed, leaf.format));
    }
    MR_ASSIGN_OR_RETURN(auto scanner, OpenChunk(first));
    MR_ASSIGN_OR_RETURN(const auto record, scanner->Next());
    if (!record.has_value()) {
      return absl::InvalidArgumentError("the chunk has no samples");
    }
    MR_ASSIGN_OR_RETURN(const auto bytes,
                        first.At(record->offset, record->bytes));
    return ChooseFields(std::move(drafts), options, bytes);
  }

  absl::StatusOr<std::unique_ptr<FieldRule>> RestoreRule(
      absl::string_view encoded) const override {
    return ColumnRule::Restore(encoded);
  }

  std::vector<std::string> Notes(const ObjectList& objects,
                                 const FormatOptions& options,
                                 const FieldRule& rule) const override {
    const auto leaves = ParseLitdataLeaves(objects.description);
    if (!leaves.ok()) return {};
    std::vector<StoredColumn> stored;
    for (const LitdataLeaf& leaf : *leaves) {
      const std::string& format = leaf.format;
      stored.push_back({.name = leaf.name,
                        .encoding = format,
                        .plain = format == "bytes" || format == "str" ||
                                 format == "text" || format == "json" ||
                                 absl::StartsWith(format, "file")});
    }
    // Rules of this format are ColumnRules.
    return BytesNotes(stored, options, static_cast<const ColumnRule&>(rule));
  }

  absl::StatusOr<std::unique_ptr<RecordScanner>> Scan(
      ObjectWindow& window, const FieldRule& rule) const override {
    static_cast<void>(rule);
    return OpenChunk(window);
  }
};

}  // namespace

const ExtentFormat& LitdataFormat() {
  static const Litdata format;
  return format;
}

}  // namespace millrace::storage
