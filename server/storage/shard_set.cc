#include "server/storage/shard_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/file_error.h"
#include "common/status_macros.h"
#include "server/storage/content_hash.h"
#include "server/storage/sample_check.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kPackAgain =
    "; copy the file again, or pack the dataset again";

// The system allows names of 255 bytes; CleanText() makes at most four bytes of
// one.
constexpr size_t kMaxNameBytes = 1100;

bool SameSchema(const Schema& a, const Schema& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

}  // namespace

std::string ShardInfoName(const std::string& path) {
  return CleanText(FileName(path), kMaxNameBytes);
}

absl::Status CheckShardMetadata(const std::string& path,
                                const ShardMetadata& metadata) {
  if (metadata.format_version() > kStorageFormatVersion) {
    return absl::UnimplementedError(absl::StrCat(
        path, " is of storage format version ", metadata.format_version(),
        ", this program reads versions up to ", kStorageFormatVersion,
        "; use a newer Millrace or pack the dataset again"));
  }
  const auto damaged = [&path](absl::string_view why) {
    return absl::DataLossError(
        absl::StrCat("the metadata of ", path, " ", why, kPackAgain));
  };
  Hash128 unused;
  if (metadata.format_version() == 0) return damaged("has no version");
  if (!HashFromHex(metadata.set_id(), &unused) ||
      !HashFromHex(metadata.content_sum(), &unused)) {
    return damaged("is damaged");
  }
  if (metadata.shard_count() < 1 || metadata.shard_index() < 0 ||
      metadata.shard_index() >= metadata.shard_count()) {
    return damaged("does not contain the number of its shard");
  }
  if (metadata.shard_samples() < 1 || metadata.first_sample() < 0 ||
      metadata.total_samples() < metadata.shard_samples() ||
      metadata.first_sample() >
          metadata.total_samples() - metadata.shard_samples()) {
    return damaged("has impossible numbers of samples");
  }
  if (absl::Status schema = SampleCheck::Create(metadata.schema()).status();
      !schema.ok()) {
    return damaged(absl::StrCat("has an invalid schema: ", schema.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<DatasetInfo> JoinShards(absl::string_view format,
                                       absl::string_view suffix,
                                       std::vector<PackedShard>& shards) {
  for (const PackedShard& shard : shards) {
    MR_RETURN_IF_ERROR(CheckShardMetadata(shard.path, shard.metadata));
  }
  const PackedShard& any = shards.front();
  for (const PackedShard& shard : shards) {
    if (shard.metadata.set_id() != any.metadata.set_id()) {
      return absl::DataLossError(absl::StrCat(
          FileName(shard.path), " and ", FileName(any.path), " in ",
          FolderOf(any.path),
          " come from two different packings; keep the shards of one of them"));
    }
    if (shard.metadata.shard_count() != any.metadata.shard_count() ||
        shard.metadata.total_samples() != any.metadata.total_samples() ||
        !SameSchema(shard.metadata.schema(), any.metadata.schema())) {
      return absl::DataLossError(absl::StrCat(
          shard.path, " does not belong to the set of ", FileName(any.path),
          ": they differ in schema or in the number of shards or "
          "samples",
          kPackAgain));
    }
  }
  std::sort(shards.begin(), shards.end(),
            [](const PackedShard& a, const PackedShard& b) {
              return a.metadata.shard_index() < b.metadata.shard_index();
            });

  const int count = any.metadata.shard_count();
  DatasetInfo info;
  info.set_format(std::string(format));
  info.set_samples(any.metadata.total_samples());
  *info.mutable_schema() = any.metadata.schema();
  info.set_train_preset(any.metadata.train_preset());
  info.set_eval_preset(any.metadata.eval_preset());
  *info.mutable_prepared() = any.metadata.prepared();
  ContentSum sum;
  int64_t next_sample = 0;
  for (int i = 0; i < count; ++i) {
    const bool there = i < static_cast<int>(shards.size());
    if (!there || shards[i].metadata.shard_index() > i) {
      return absl::DataLossError(absl::StrCat(
          "shard ", i, " of ", count, " (", ShardName(i, count, suffix),
          ") is missing beside ", shards.front().path,
          ": the dataset is incomplete; open the folder that contains all of "
          "its shards, or pack it again"));
    }
    const PackedShard& shard = shards[i];
    if (shard.metadata.shard_index() < i) {
      return absl::DataLossError(absl::StrCat(
          FileName(shards[i - 1].path), " and ", FileName(shard.path), " in ",
          FolderOf(shard.path), " are the same shard; remove one of them"));
    }
    if (shard.metadata.first_sample() != next_sample) {
      return absl::DataLossError(absl::StrCat(
          shard.path, " begins at sample ", shard.metadata.first_sample(),
          " instead of ", next_sample, kPackAgain));
    }
    next_sample += shard.metadata.shard_samples();
    Hash128 hash;
    HashFromHex(shard.metadata.content_sum(), &hash);  // checked above
    sum.Add(hash);
    ShardInfo* entry = info.add_shards();
    entry->set_name(ShardInfoName(shard.path));
    entry->set_first_sample(shard.metadata.first_sample());
    entry->set_samples(shard.metadata.shard_samples());
    entry->set_bytes(shard.bytes);
    entry->set_content_sum(shard.metadata.content_sum());
  }
  if (static_cast<int>(shards.size()) > count) {
    return absl::DataLossError(absl::StrCat(
        FileName(shards[count].path), " in ", FolderOf(shards[count].path),
        " is a second copy of a shard; remove it"));
  }
  if (next_sample != info.samples()) {
    return absl::DataLossError(absl::StrCat(
        "the shards beside ", shards.front().path, " hold ", next_sample,
        " samples instead of ", info.samples(), kPackAgain));
  }
  info.set_fingerprint(
      DatasetFingerprint(info.samples(), info.schema(), sum.value()));
  return info;
}

}  // namespace millrace::storage
