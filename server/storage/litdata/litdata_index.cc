#include "server/storage/litdata/litdata_index.h"

#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "server/storage/chunks/index_json.h"
#include "server/storage/litdata/litdata_batches.h"
#include "server/storage/litdata/litdata_tree.h"
#include "server/storage/unpack/codec_unpacker.h"
#include "server/storage/unpack/decompressor.h"
#include "server/storage/unpack/unpacker.h"

namespace millrace::storage {
namespace {

constexpr size_t kMaxQuotedBytes = 80;
// Samples of a chunk have u32 offsets and at least a byte each.
constexpr uint64_t kMaxSamples = UINT32_MAX;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", CleanText(text, kMaxQuotedBytes), "'");
}

// How chunks are compressed.
struct ChunkCompression {
  const Unpacker* unpacker = nullptr;  // null: they are not
  // Whether chunk_bytes counts the raw bytes, not those of the file.
  bool counts_raw = true;
};

// Unimplemented: a compression that is not known.
absl::StatusOr<ChunkCompression> CompressionOf(const JsonMembers& config) {
  ChunkCompression found;
  if (config.Find("compression") == nullptr) return found;
  MR_ASSIGN_OR_RETURN(const std::string compression,
                      config.Text("compression"));
  const Unpacker* const whole = CodecUnpackerNamed(compression);
  if (whole != &CodecUnpacker(Codec::kZstd)) {
    return absl::UnimplementedError(
        absl::StrCat(config.WhereOf("compression"), " is ", Quoted(compression),
                     "; zstd is supported: write the dataset again with "
                     "compression=None or 'zstd'"));
  }
  std::string level = "chunk";
  if (config.Find("compression_level") != nullptr) {
    MR_ASSIGN_OR_RETURN(level, config.Text("compression_level"));
  }
  if (level == "chunk") {
    found.unpacker = whole;
  } else if (level == "batch") {
    found = {&LitdataBatches(), false};
  } else if (level == "sample") {
    found = {&LitdataSamples(), false};
  } else {
    return absl::UnimplementedError(absl::StrCat(
        config.WhereOf("compression_level"), " is ", Quoted(level),
        "; chunk, batch and sample are supported: write the dataset again "
        "with compression=None"));
  }
  return found;
}

// Unimplemented: chunks of this configuration have no samples that can be read
// one by one.
absl::Status CheckConfig(const JsonMembers& config) {
  const auto refuse = [&](absl::string_view key, const auto&... what) {
    return absl::UnimplementedError(absl::StrCat(config.WhereOf(key), what...));
  };
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

absl::Status AddChunk(const std::string& folder, const JsonMembers& chunk,
                      const ChunkCompression& compression, ObjectList* list) {
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
  const std::vector<uint64_t> sizes = {
      bytes, bytes + sizeof(uint32_t) * (samples + 2)};
  PackedObject& packed = list->packed.objects.emplace_back();
  packed.unpacker = compression.unpacker;
  const bool raw = packed.unpacker != nullptr && compression.counts_raw;
  if (raw) packed.raw_sizes = sizes;
  MR_ASSIGN_OR_RETURN(
      list->names.emplace_back(),
      FindChunk(folder, name,
                raw ? absl::Span<const uint64_t>() : absl::MakeConstSpan(sizes),
                chunk.WhereOf(raw ? "filename" : "chunk_bytes")));
  return absl::OkStatus();
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
  MR_ASSIGN_OR_RETURN(const ChunkCompression compression,
                      CompressionOf(config));
  ObjectList list;
  for (const JsonMembers& chunk : chunks) {
    MR_RETURN_IF_ERROR(AddChunk(index.folder(), chunk, compression, &list));
  }
  list.packed.instead = "write the dataset again with compression=None";
  MR_ASSIGN_OR_RETURN(list.description, DescribeLeaves(config));
  return list;
}

}  // namespace millrace::storage
