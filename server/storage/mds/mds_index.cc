#include "server/storage/mds/mds_index.h"

#include <sys/stat.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clean_text.h"
#include "common/folder.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "server/storage/chunks/column_rule.h"
#include "server/storage/chunks/index_json.h"
#include "server/storage/unpack/codec_unpacker.h"
#include "server/storage/unpack/unpacker.h"

namespace millrace::storage {
namespace {

constexpr uint64_t kVersion = 2;
constexpr size_t kMaxQuotedBytes = 80;

absl::StatusOr<MdsColumns> ColumnsOf(const JsonMembers& members) {
  MdsColumns columns;
  MR_ASSIGN_OR_RETURN(columns.names, members.Texts("column_names"));
  MR_ASSIGN_OR_RETURN(columns.encodings, members.Texts("column_encodings"));
  MR_ASSIGN_OR_RETURN(columns.sizes, members.CountsOrNull("column_sizes"));
  const size_t count = columns.names.size();
  if (columns.encodings.size() != count || columns.sizes.size() != count) {
    return members.Wrong(
        "column_names",
        absl::StrCat("has ", count, " columns, column_encodings has ",
                     columns.encodings.size(), " and column_sizes has ",
                     columns.sizes.size()));
  }
  if (count == 0 || count > kMaxColumns) {
    return members.Wrong("column_names",
                         absl::StrCat("has ", count, " columns; there must be ",
                                      "1 to ", kMaxColumns));
  }
  if (std::set<std::string>(columns.names.begin(), columns.names.end())
          .size() != count) {
    return members.Wrong("column_names", "has a column twice");
  }
  return columns;
}

std::string DescribeColumns(const MdsColumns& columns) {
  return JsonObject()
      .Add("column_names", columns.names)
      .Add("column_encodings", columns.encodings)
      .Add("column_sizes", columns.sizes)
      .Json();
}

absl::Status CheckKind(const JsonMembers& shard) {
  MR_ASSIGN_OR_RETURN(const uint64_t version, shard.Count("version"));
  MR_ASSIGN_OR_RETURN(const std::string format, shard.Text("format"));
  if (version != kVersion) {
    return absl::UnimplementedError(absl::StrCat(shard.WhereOf("version"),
                                                 " is ", version, "; version ",
                                                 kVersion, " is supported"));
  }
  if (format != "mds") {
    return absl::UnimplementedError(absl::StrCat(
        shard.WhereOf("format"), " is '", CleanText(format, kMaxQuotedBytes),
        "'; shards of the format 'mds' are supported: write the "
        "dataset again with MDSWriter"));
  }
  return absl::OkStatus();
}

// Adds the file of a shard: the raw one, or the compressed one where that is
// the only one.
absl::Status AddShard(const std::string& folder, const JsonMembers& shard,
                      ObjectList* list) {
  MR_ASSIGN_OR_RETURN(const JsonMembers raw, shard.Object("raw_data"));
  MR_ASSIGN_OR_RETURN(const std::string name, raw.Text("basename"));
  MR_ASSIGN_OR_RETURN(const uint64_t bytes, raw.Count("bytes"));
  PackedObject& packed = list->packed.objects.emplace_back();
  struct stat info;
  if (shard.Find("compression") == nullptr ||
      stat(JoinPath(folder, name).c_str(), &info) == 0) {
    MR_ASSIGN_OR_RETURN(list->names.emplace_back(),
                        FindChunk(folder, name, {bytes}, raw.WhereOf("bytes")));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const std::string compression, shard.Text("compression"));
  packed.unpacker = CodecUnpackerNamed(compression);
  if (packed.unpacker == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        shard.WhereOf("compression"), " is '",
        CleanText(compression, kMaxQuotedBytes),
        "'; zstd, gz, bz2, br and snappy are supported: decompress the shards "
        "in the folder (index.json stays as it is), or write the dataset "
        "again"));
  }
  packed.raw_sizes = {bytes};
  MR_ASSIGN_OR_RETURN(const JsonMembers zip, shard.Object("zip_data"));
  MR_ASSIGN_OR_RETURN(const std::string zip_name, zip.Text("basename"));
  MR_ASSIGN_OR_RETURN(const uint64_t zip_bytes, zip.Count("bytes"));
  MR_ASSIGN_OR_RETURN(
      list->names.emplace_back(),
      FindChunk(folder, zip_name, {zip_bytes}, zip.WhereOf("bytes")));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MdsColumns> ParseMdsColumns(absl::string_view json,
                                           const std::string& where) {
  MR_ASSIGN_OR_RETURN(const auto document, ParseJson(json, where));
  MR_ASSIGN_OR_RETURN(const JsonMembers members,
                      JsonMembers::Of(document, where));
  return ColumnsOf(members);
}

absl::StatusOr<ObjectList> ListMdsShards(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const IndexJson index, ReadIndexJson(path));
  return ListMdsShards(index);
}

absl::StatusOr<ObjectList> ListMdsShards(const IndexJson& index) {
  MR_ASSIGN_OR_RETURN(const JsonMembers members, index.Members());
  if (members.Find("shards") == nullptr && members.Find("chunks") != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        index.path(), " is an index of LitData: use litdata:", index.folder()));
  }
  MR_ASSIGN_OR_RETURN(const uint64_t version, members.Count("version"));
  if (version != kVersion) {
    return absl::UnimplementedError(absl::StrCat(members.WhereOf("version"),
                                                 " is ", version, "; version ",
                                                 kVersion, " is supported"));
  }
  MR_ASSIGN_OR_RETURN(const auto shards, members.Objects("shards"));
  if (shards.empty()) {
    return absl::NotFoundError(
        absl::StrCat(index.path(), " has no shards: the dataset is empty"));
  }
  ObjectList list;
  MdsColumns first;
  for (size_t i = 0; i < shards.size(); ++i) {
    MR_RETURN_IF_ERROR(CheckKind(shards[i]));
    MR_ASSIGN_OR_RETURN(MdsColumns columns, ColumnsOf(shards[i]));
    if (i == 0) {
      first = std::move(columns);
    } else if (columns != first) {
      return absl::DataLossError(absl::StrCat(
          index.path(), ": shards[0] and shards[", i,
          "] have different columns or encodings (",
          CleanText(DescribeColumns(first), 4 * kMaxQuotedBytes), " and ",
          CleanText(DescribeColumns(columns), 4 * kMaxQuotedBytes),
          "): serve them as two datasets"));
    }
    MR_RETURN_IF_ERROR(AddShard(index.folder(), shards[i], &list));
  }
  list.packed.instead =
      "decompress the shards in the folder of index.json, which stays as it "
      "is (`zstd -d`), or write the dataset without compression";
  list.description = DescribeColumns(first);
  return list;
}

}  // namespace millrace::storage
