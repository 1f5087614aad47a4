#include "server/storage/litdata/litdata_index.h"

#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "server/storage/chunks/index_json.h"
#include "server/storage/litdata/litdata_tree.h"

namespace millrace::storage {
namespace {

constexpr size_t kMaxQuotedBytes = 80;
// Samples of a chunk have u32 offsets and at least a byte each.
constexpr uint64_t kMaxSamples = UINT32_MAX;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", CleanText(text, kMaxQuotedBytes), "'");
}

// Unimplemented: chunks of this configuration have no samples that can be read
// one by one.
absl::Status CheckConfig(const JsonMembers& config) {
  const auto refuse = [&](absl::string_view key, const auto&... what) {
    return absl::UnimplementedError(absl::StrCat(config.WhereOf(key), what...));
  };
  if (config.Find("compression") != nullptr) {
    MR_ASSIGN_OR_RETURN(const std::string compression,
                        config.Text("compression"));
    return refuse("compression", " is ", Quoted(compression),
                  ", and compressed chunks cannot be read at random: write "
                  "the dataset again with compression=None");
  }
  if (config.Find("encryption") != nullptr) {
    return refuse("encryption",
                  " is set, and encrypted chunks are not supported: write the "
                  "dataset again without encryption");
  }
  if (config.Find("item_loader") == nullptr) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const std::string loader, config.Text("item_loader"));
  if (loader == "PyTreeLoader") return absl::OkStatus();
  return refuse("item_loader", " is ", Quoted(loader),
                "; chunks of PyTreeLoader, litdata's default, are supported",
                loader == "ParquetLoader"
                    ? ": serve the Parquet files with parquet:"
                    : ": write the dataset again with it");
}

// "name format" of each leaf, as the description of the list.
absl::StatusOr<std::string> DescribeLeaves(const JsonMembers& config) {
  MR_ASSIGN_OR_RETURN(const auto formats, config.Texts("data_format"));
  MR_ASSIGN_OR_RETURN(const std::string spec, config.Text("data_spec"));
  MR_ASSIGN_OR_RETURN(const auto leaves,
                      ParseLitdataTree(spec, config.WhereOf("data_spec")));
  if (leaves.empty() || leaves.size() != formats.size()) {
    return config.Wrong(
        "data_spec",
        absl::StrCat("has ", leaves.size(), " leaves, and data_format has ",
                     formats.size(), " formats"));
  }
  std::vector<std::string> names;
  std::vector<bool> unnamed;
  for (const TreeLeaf& leaf : leaves) {
    names.push_back(leaf.name);
    unnamed.push_back(leaf.unnamed);
  }
  return JsonObject()
      .Add("names", names)
      .AddJson("unnamed",
               JsonList(unnamed, [](bool is) { return JsonOf(is ? 1 : 0); }))
      .Add("formats", formats)
      .Json();
}

absl::StatusOr<std::string> FindLitdataChunk(const std::string& folder,
                                             const JsonMembers& chunk) {
  MR_ASSIGN_OR_RETURN(const std::string name, chunk.Text("filename"));
  MR_ASSIGN_OR_RETURN(const uint64_t bytes, chunk.Count("chunk_bytes"));
  MR_ASSIGN_OR_RETURN(const uint64_t samples, chunk.Count("chunk_size"));
  if (samples > kMaxSamples) {
    return chunk.Wrong("chunk_size",
                       absl::StrCat("is ", samples, ", more than a chunk has"));
  }
  if (chunk.Find("dim") != nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        chunk.WhereOf("dim"),
        " is set: the chunk holds tokens without samples (TokensLoader): write "
        "the dataset again with litdata's default item loader"));
  }
  // Early releases of litdata 0.2 did not count the table in chunk_bytes.
  return FindChunk(folder, name,
                   {bytes, bytes + sizeof(uint32_t) * (samples + 2)},
                   chunk.WhereOf("chunk_bytes"));
}

}  // namespace

absl::StatusOr<std::vector<LitdataLeaf>> ParseLitdataLeaves(
    absl::string_view description) {
  const std::string where = "the list of leaves";
  MR_ASSIGN_OR_RETURN(const auto document, ParseJson(description, where));
  MR_ASSIGN_OR_RETURN(const JsonMembers members,
                      JsonMembers::Of(document, where));
  MR_ASSIGN_OR_RETURN(const auto names, members.Texts("names"));
  MR_ASSIGN_OR_RETURN(const auto unnamed, members.CountsOrNull("unnamed"));
  MR_ASSIGN_OR_RETURN(const auto formats, members.Texts("formats"));
  if (names.size() != unnamed.size() || names.size() != formats.size()) {
    return members.Wrong("names", "has another length than formats");
  }
  std::vector<LitdataLeaf> leaves;
  for (size_t i = 0; i < names.size(); ++i) {
    leaves.push_back({names[i], unnamed[i] != 0, formats[i]});
  }
  return leaves;
}

absl::StatusOr<ObjectList> ListLitdataChunks(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const IndexJson index, ReadIndexJson(path));
  return ListLitdataChunks(index);
}

absl::StatusOr<ObjectList> ListLitdataChunks(const IndexJson& index) {
  MR_ASSIGN_OR_RETURN(const JsonMembers members, index.Members());
  if (members.Find("chunks") == nullptr && members.Find("shards") != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        index.path(),
        " is an index of MosaicML Streaming: use mds:", index.folder()));
  }
  MR_ASSIGN_OR_RETURN(const auto chunks, members.Objects("chunks"));
  if (chunks.empty()) {
    return absl::NotFoundError(
        absl::StrCat(index.path(), " has no chunks: the dataset is empty"));
  }
  MR_ASSIGN_OR_RETURN(const JsonMembers config, members.Object("config"));
  MR_RETURN_IF_ERROR(CheckConfig(config));
  ObjectList list;
  for (const JsonMembers& chunk : chunks) {
    MR_ASSIGN_OR_RETURN(list.names.emplace_back(),
                        FindLitdataChunk(index.folder(), chunk));
  }
  MR_ASSIGN_OR_RETURN(list.description, DescribeLeaves(config));
  return list;
}

}  // namespace millrace::storage
