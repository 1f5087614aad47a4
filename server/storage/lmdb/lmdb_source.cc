#include "server/storage/lmdb/lmdb_source.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/lmdb/lmdb_file.h"
#include "server/storage/lmdb/metadata_record.h"
#include "server/storage/lmdb/sample_codec.h"
#include "server/storage/packed_set.h"
#include "server/storage/read_error.h"
#include "server/storage/sample_check.h"

namespace millrace {
namespace {

struct Shard {
  std::shared_ptr<const LmdbFile> file;
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
        cursors_(source.shards().size()),
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
    if (!status.ok()) {
      return AtSample(std::move(status),
                      source_.info().shards(sample.shard).name(), sample.row,
                      index);
    }
    sample.fields = views_;
    return visit(sample);
  }

  void Prefetch(int64_t index) override {
    if (index < 0 || index >= samples_) return;
    EncodedSample sample;
    sample.shard = source_.ShardOf(index);
    const Shard& shard = source_.shards()[sample.shard];
    sample.row = index - shard.first_sample;
    absl::Span<const uint8_t> value;
    if (OpenCursor(sample, shard).ok() && Find(sample, &value) == 0) {
      cursors_[sample.shard]->Touch(value);
    }
  }

 private:
  absl::Status OpenCursor(const EncodedSample& sample, const Shard& shard) {
    std::unique_ptr<LmdbCursor>& cursor = cursors_[sample.shard];
    if (cursor != nullptr) return absl::OkStatus();
    MR_ASSIGN_OR_RETURN(cursor, LmdbCursor::Create(shard.file));
    return absl::OkStatus();
  }

  // LMDB's code for the look-up of a sample; its cursor is open.
  int Find(const EncodedSample& sample, absl::Span<const uint8_t>* value) {
    static_assert(std::endian::native == std::endian::little);
    const uint64_t key = __builtin_bswap64(static_cast<uint64_t>(sample.row));
    return cursors_[sample.shard]->TryGet(
        {reinterpret_cast<const char*>(&key), sizeof(key)}, value);
  }

  // Points views_ at the sample's fields.
  absl::Status Load(const Shard& shard, const EncodedSample& sample) {
    MR_RETURN_IF_ERROR(OpenCursor(sample, shard));
    absl::Span<const uint8_t> value;
    const int rc = Find(sample, &value);
    if (rc == MDB_NOTFOUND) {
      return absl::DataLossError(
          "the file has lost this sample; copy it again, or pack it again");
    }
    if (rc != 0) return LmdbError(rc, "read", shard.file->path());
    MR_RETURN_IF_ERROR(source_.codec().Decode(value, absl::MakeSpan(views_)));
    return source_.check().Check(views_);
  }

  const LmdbSource& source_;
  const int64_t samples_;
  std::vector<std::unique_ptr<LmdbCursor>> cursors_;  // null until used
  std::vector<absl::Span<const uint8_t>> views_;
};

absl::StatusOr<std::unique_ptr<RecordReader>> LmdbSource::NewReader() const {
  return std::make_unique<LmdbReader>(*this);
}

absl::StatusOr<ShardMetadata> ReadMetadata(
    const std::shared_ptr<const LmdbFile>& file) {
  MR_ASSIGN_OR_RETURN(auto cursor, LmdbCursor::Create(file));
  absl::StatusOr<absl::Span<const uint8_t>> record = cursor->Get(kMetadataKey);
  if (absl::IsNotFound(record.status())) {
    return absl::DataLossError(absl::StrCat(
        file->path(),
        " is an LMDB file without Millrace's metadata: it was written by "
        "another program, or its packing was interrupted; write it with "
        "`millrace-data pack`"));
  }
  if (!record.ok()) return record.status();
  absl::StatusOr<ShardMetadata> metadata = DecodeMetadataRecord(*record);
  if (!metadata.ok()) {
    return absl::Status(
        metadata.status().code(),
        absl::StrCat(file->path(), ": ", metadata.status().message()));
  }
  if (file->entries() != metadata->shard_samples() + 1) {
    return absl::DataLossError(
        absl::StrCat(file->path(), " holds ", file->entries() - 1,
                     " samples instead of ", metadata->shard_samples(),
                     "; copy the file again, or pack the dataset again"));
  }
  return metadata;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenLmdbSource(
    const std::vector<std::string>& files) {
  std::vector<PackedShard> packed;
  std::map<std::string, std::shared_ptr<const LmdbFile>> open_files;
  for (const std::string& path : files) {
    MR_ASSIGN_OR_RETURN(auto file, LmdbFile::Open(path));
    MR_ASSIGN_OR_RETURN(ShardMetadata metadata, ReadMetadata(file));
    packed.push_back({.path = path,
                      .bytes = static_cast<int64_t>(file->bytes()),
                      .metadata = std::move(metadata)});
    open_files[path] = std::move(file);
  }
  MR_ASSIGN_OR_RETURN(DatasetInfo info, JoinShards("lmdb", ".lmdb", packed));
  MR_ASSIGN_OR_RETURN(SampleCheck check, SampleCheck::Create(info.schema()));
  std::vector<Shard> shards;
  for (const PackedShard& shard : packed) {
    shards.push_back({.file = open_files[shard.path],
                      .first_sample = shard.metadata.first_sample()});
  }
  return std::make_unique<LmdbSource>(std::move(info), std::move(shards),
                                      std::move(check));
}

}  // namespace millrace
