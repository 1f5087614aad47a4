#include "server/storage/mds/mds_format.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "server/storage/chunks/bytes_note.h"
#include "server/storage/chunks/column_choice.h"
#include "server/storage/chunks/column_rule.h"
#include "server/storage/chunks/offset_table.h"
#include "server/storage/mds/mds_encoding.h"
#include "server/storage/mds/mds_index.h"

namespace millrace::storage {
namespace {

// Of a shard's config. It has some bytes for each column.
constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr size_t kMaxQuotedBytes = 200;

std::string Columns(const std::vector<std::string>& names) {
  return CleanText(absl::StrJoin(names, ", "), kMaxQuotedBytes);
}

// Compares the config of a shard with the columns of the index. DataLoss: they
// differ. Not every writer stores a config.
absl::Status CheckConfig(ObjectWindow& window, uint64_t begin, uint64_t end,
                         const ColumnRule& rule) {
  if (begin == end) return absl::OkStatus();
  const auto damaged = [&](const auto&... what) {
    return absl::DataLossError(
        absl::StrCat("byte ", begin, ": the shard's config ", what...));
  };
  if (end - begin > kMaxConfigBytes) {
    return damaged("has ", end - begin, " bytes, more than the limit of ",
                   kMaxConfigBytes);
  }
  MR_ASSIGN_OR_RETURN(const auto bytes, window.At(begin, end - begin));
  const auto columns = ParseMdsColumns(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "it");
  if (!columns.ok()) {
    return damaged("is damaged: ", columns.status().message());
  }
  std::vector<std::string> names;
  std::vector<uint64_t> sizes;
  for (const ChunkColumn& column : rule.columns()) {
    names.push_back(column.name);
    sizes.push_back(column.bytes);
  }
  if (columns->names != names || columns->sizes != sizes) {
    return damaged("has the columns ", Columns(columns->names),
                   " and index.json has ", Columns(names),
                   ", or their sizes differ: the shard is of another dataset");
  }
  return absl::OkStatus();
}

class Mds final : public ExtentFormat {
 public:
  absl::string_view scheme() const override { return "mds"; }

  absl::StatusOr<ObjectList> List(const std::string& path,
                                  const FormatOptions& options) const override {
    MR_RETURN_IF_ERROR(CheckChunkOptions(scheme(), options));
    return ListMdsShards(path);
  }

  absl::StatusOr<std::unique_ptr<FieldRule>> NewRule(
      const ObjectList& objects, const FormatOptions& options,
      ObjectWindow& first) const override {
    MR_RETURN_IF_ERROR(CheckChunkOptions(scheme(), options));
    MR_ASSIGN_OR_RETURN(
        const MdsColumns columns,
        ParseMdsColumns(objects.description, "the list of columns"));
    std::vector<ColumnDraft> drafts;
    for (size_t i = 0; i < columns.names.size(); ++i) {
      MR_ASSIGN_OR_RETURN(
          drafts.emplace_back(),
          DraftOfMdsColumn(columns.names[i], columns.encodings[i],
                           columns.sizes[i]));
    }
    MR_ASSIGN_OR_RETURN(auto scanner,
                        OffsetTableScanner::Create(first, {.gap = true}));
    MR_ASSIGN_OR_RETURN(const auto record, scanner->Next());
    if (!record.has_value()) {
      return absl::InvalidArgumentError("the shard has no samples");
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
    const auto columns =
        ParseMdsColumns(objects.description, "the list of columns");
    if (!columns.ok()) return {};
    std::vector<StoredColumn> stored;
    for (size_t i = 0; i < columns->names.size(); ++i) {
      const std::string& encoding = columns->encodings[i];
      stored.push_back({.name = columns->names[i],
                        .encoding = encoding,
                        .plain = encoding == "bytes" || encoding == "str" ||
                                 encoding == "json"});
    }
    // Rules of this format are ColumnRules.
    return BytesNotes(stored, options, static_cast<const ColumnRule&>(rule));
  }

  absl::StatusOr<std::unique_ptr<RecordScanner>> Scan(
      ObjectWindow& window, const FieldRule& rule) const override {
    MR_ASSIGN_OR_RETURN(auto scanner,
                        OffsetTableScanner::Create(window, {.gap = true}));
    // Rules of this format are ColumnRules.
    MR_RETURN_IF_ERROR(CheckConfig(window, scanner->table_end(),
                                   scanner->first_offset(),
                                   static_cast<const ColumnRule&>(rule)));
    return scanner;
  }
};

}  // namespace

const ExtentFormat& MdsFormat() {
  static const Mds format;
  return format;
}

}  // namespace millrace::storage
