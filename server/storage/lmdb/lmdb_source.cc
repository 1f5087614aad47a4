#include "server/storage/lmdb/lmdb_source.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"
#include "server/storage/lmdb/lmdb_file.h"
#include "server/storage/lmdb/metadata_record.h"
#include "server/storage/lmdb/sample_codec.h"
#include "server/storage/packed_set.h"
#include "server/storage/read_error.h"
#include "server/storage/sample_check.h"

namespace millrace {
namespace {

// So few files are all checked for a batch, whichever it has read of.
constexpr size_t kFewShards = 4;

struct Shard {
  std::unique_ptr<const LmdbFile> file;
  int64_t first_sample = 0;
};

class LmdbSource final : public RecordSource {
 public:
  LmdbSource(DatasetInfo info, std::vector<Shard> shards, SampleCheck check)
      : info_(std::move(info)),
        shards_(std::move(shards)),
        check_(std::move(check)),
        codec_(check_) {}

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  ReadWait read_wait() const override { return ReadWait::kPages; }
  absl::Status CheckFiles() const override;
  absl::Status CheckFilesOf(absl::Span<const int64_t> samples) const override;

  // The shard that holds sample `index`, which exists.
  int ShardOf(int64_t index) const {
    if (shards_.size() == 1) return 0;
    const auto after = std::upper_bound(
        shards_.begin(), shards_.end(), index,
        [](int64_t i, const Shard& shard) { return i < shard.first_sample; });
    return static_cast<int>(after - shards_.begin()) - 1;
  }
  const std::vector<Shard>& shards() const { return shards_; }
  const SampleCheck& check() const { return check_; }
  const SampleCodec& codec() const { return codec_; }
  // Unavailable, with the shard in its detail.
  absl::Status CheckShard(int shard) const;

 private:
  const DatasetInfo info_;
  const std::vector<Shard> shards_;
  const SampleCheck check_;
  const SampleCodec codec_;
};

class LmdbReader final : public RecordReader {
 public:
  explicit LmdbReader(const LmdbSource& source)
      : source_(source),
        samples_(source.info().samples()),
        positions_(source.shards().size()),
        views_(source.codec().fields()) {}

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    if (index < 0 || index >= samples_) return NoSuchSample(index, samples_);
    EncodedSample sample;
    sample.shard = source_.ShardOf(index);
    const Shard& shard = source_.shards()[sample.shard];
    sample.row = index - shard.first_sample;
    absl::Status status = Load(shard, sample);
    const bool loaded = status.ok();
    if (loaded) {
      sample.fields = views_;
      status = visit(sample);
      if (status.ok()) return status;
    }
    // The sample is not to blame when the file has changed under it.
    MR_RETURN_IF_ERROR(source_.CheckShard(sample.shard));
    if (loaded) return status;
    return AtSample(std::move(status),
                    source_.info().shards(sample.shard).name(), sample.row,
                    index);
  }

  void Prefetch(int64_t index) override {
    if (index < 0 || index >= samples_) return;
    EncodedSample sample;
    sample.shard = source_.ShardOf(index);
    const Shard& shard = source_.shards()[sample.shard];
    sample.row = index - shard.first_sample;
    absl::Span<const uint8_t> value;
    if (Find(shard, sample, &value) == LmdbTree::Result::kFound) {
      shard.file->Touch(value);
    }
  }

 private:
  LmdbTree::Result Find(const Shard& shard, const EncodedSample& sample,
                        absl::Span<const uint8_t>* value) {
    static_assert(std::endian::native == std::endian::little);
    const uint64_t key = __builtin_bswap64(static_cast<uint64_t>(sample.row));
    return shard.file->TryGet(
        {reinterpret_cast<const char*>(&key), sizeof(key)},
        &positions_[sample.shard], value);
  }

  // Points views_ at the sample's fields.
  absl::Status Load(const Shard& shard, const EncodedSample& sample) {
    absl::Span<const uint8_t> value;
    switch (Find(shard, sample, &value)) {
      case LmdbTree::Result::kNotFound:
        return absl::DataLossError(
            "the file has lost this sample; copy it again, or pack it again");
      case LmdbTree::Result::kDamaged:
        return shard.file->DamagedTree();
      case LmdbTree::Result::kFound:
        break;
    }
    MR_RETURN_IF_ERROR(source_.codec().Decode(value, absl::MakeSpan(views_)));
    return source_.check().Check(views_);
  }

  const LmdbSource& source_;
  const int64_t samples_;
  std::vector<LmdbTree::Position> positions_;
  std::vector<absl::Span<const uint8_t>> views_;
};

absl::Status LmdbSource::CheckShard(int shard) const {
  absl::Status status = shards_[shard].file->CheckUnchanged();
  if (status.ok()) return status;
  ErrorDetail detail = MakeErrorDetail("storage");
  detail.set_shard(info_.shards(shard).name());
  return WithErrorDetail(std::move(status), detail);
}

absl::Status LmdbSource::CheckFiles() const {
  for (int i = 0; i < static_cast<int>(shards_.size()); ++i) {
    MR_RETURN_IF_ERROR(CheckShard(i));
  }
  return absl::OkStatus();
}

absl::Status LmdbSource::CheckFilesOf(absl::Span<const int64_t> samples) const {
  if (shards_.size() <= kFewShards) return CheckFiles();
  std::vector<bool> checked(shards_.size());
  for (const int64_t index : samples) {
    if (index < 0 || index >= info_.samples()) continue;
    const int shard = ShardOf(index);
    if (checked[shard]) continue;
    checked[shard] = true;
    MR_RETURN_IF_ERROR(CheckShard(shard));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RecordReader>> LmdbSource::NewReader() const {
  return std::make_unique<LmdbReader>(*this);
}

absl::StatusOr<ShardMetadata> ReadMetadata(const LmdbFile& file) {
  LmdbTree::Position position;
  const absl::StatusOr<absl::Span<const uint8_t>> found =
      file.Get(kMetadataKey, &position);
  if (absl::IsNotFound(found.status())) {
    return absl::DataLossError(absl::StrCat(
        file.path(),
        " is an LMDB file without Millrace's metadata: it was written by "
        "another program, or its packing was interrupted; write it with "
        "`millrace-data pack`"));
  }
  if (!found.ok()) return found.status();
  // A copy, which stays as it is while it is looked at.
  const std::vector<uint8_t> record(found->begin(), found->end());
  absl::StatusOr<ShardMetadata> metadata = DecodeMetadataRecord(record);
  MR_RETURN_IF_ERROR(file.CheckUnchanged());
  if (!metadata.ok()) {
    return absl::Status(
        metadata.status().code(),
        absl::StrCat(file.path(), ": ", metadata.status().message()));
  }
  if (file.entries() != metadata->shard_samples() + 1) {
    return absl::DataLossError(
        absl::StrCat(file.path(), " holds ", file.entries() - 1,
                     " samples instead of ", metadata->shard_samples(),
                     "; copy the file again, or pack the dataset again"));
  }
  return metadata;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenLmdbSource(
    const std::vector<std::string>& files) {
  std::vector<PackedShard> packed;
  std::map<std::string, std::unique_ptr<const LmdbFile>> open_files;
  for (const std::string& path : files) {
    MR_ASSIGN_OR_RETURN(auto file, LmdbFile::Open(path));
    MR_ASSIGN_OR_RETURN(ShardMetadata metadata, ReadMetadata(*file));
    packed.push_back({.path = path,
                      .bytes = static_cast<int64_t>(file->bytes()),
                      .metadata = std::move(metadata)});
    open_files[path] = std::move(file);
  }
  MR_ASSIGN_OR_RETURN(DatasetInfo info, JoinShards("lmdb", ".lmdb", packed));
  MR_ASSIGN_OR_RETURN(SampleCheck check, SampleCheck::Create(info.schema()));
  std::vector<Shard> shards;
  for (const PackedShard& shard : packed) {
    shards.push_back({.file = std::move(open_files[shard.path]),
                      .first_sample = shard.metadata.first_sample()});
  }
  return std::make_unique<LmdbSource>(std::move(info), std::move(shards),
                                      std::move(check));
}

}  // namespace millrace
