#include "server/storage/parquet/foreign_fingerprint.h"

#include "common/status_macros.h"
#include "server/storage/columns/column_fingerprint.h"
#include "server/storage/content_hash.h"

namespace millrace::storage {
namespace {

void AppendNumber(uint64_t number, std::string* text) {
  text->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

absl::StatusOr<std::string> ForeignFingerprint(
    absl::Span<const ForeignShard> shards, int64_t whole_bytes, int threads) {
  const size_t columns = shards.front().columns.size();
  // Indexed by shard and column: the row groups.
  std::vector<std::vector<std::vector<ChunkPlace>>> all;
  std::vector<HashedFile> files;
  for (const ForeignShard& shard : shards) {
    auto& places = all.emplace_back(columns);
    for (size_t i = 0; i < columns; ++i) {
      MR_ASSIGN_OR_RETURN(places[i], shard.file->PlacesOf(shard.columns[i]));
    }
    const ParquetFile* const file = shard.file.get();
    files.push_back(
        {.path = file->path(),
         .groups = file->row_groups(),
         .place = [&all, s = all.size() - 1](int64_t group, size_t column)
             -> absl::StatusOr<ColumnBytes> {
           const ChunkPlace& place = all[s][column][group];
           return ColumnBytes{.begin = place.begin, .bytes = place.bytes};
         },
         .read =
             [file](uint64_t offset, absl::Span<uint8_t> buffer) {
               return file->Read(offset, buffer);
             },
         .check = [file] { return file->CheckUnchanged(); }});
  }
  MR_ASSIGN_OR_RETURN(const Hash128 sum,
                      HashColumns(files, columns, whole_bytes, threads));
  std::string text = "millrace foreign parquet 2";
  for (const ForeignShard& shard : shards) {
    const absl::StatusOr<std::string> footer = shard.file->ReadFooter();
    MR_RETURN_IF_ERROR(shard.file->CheckUnchanged());
    MR_RETURN_IF_ERROR(footer.status());
    AppendNumber(footer->size(), &text);
    text.append(*footer);
  }
  AppendNumber(sum.low, &text);
  AppendNumber(sum.high, &text);
  return HashToHex(
      HashBytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
}

}  // namespace millrace::storage
