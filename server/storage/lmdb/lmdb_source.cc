#include "server/storage/lmdb/lmdb_source.h"

#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/lmdb/lmdb_file.h"
#include "server/storage/lmdb/metadata_record.h"
#include "server/storage/lmdb/sample_codec.h"
#include "server/storage/read_error.h"
#include "server/storage/sample_check.h"
#include "server/storage/shard_files.h"
#include "server/storage/shard_set.h"

namespace millrace::storage {
namespace {

using Files = std::vector<std::unique_ptr<const LmdbFile>>;

class LmdbSource final : public RecordSource {
 public:
  LmdbSource(DatasetInfo info, Files files, SampleCheck check)
      : info_(std::move(info)),
        files_(std::move(files)),
        shards_(info_,
                [this](int shard) { return files_[shard]->CheckUnchanged(); }),
        check_(std::move(check)),
        codec_(check_) {}

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  ReadWait read_wait() const override { return ReadWait::kPages; }
  absl::Status CheckFiles() const override { return shards_.CheckAll(); }
  absl::Status CheckFilesOf(absl::Span<const int64_t> samples) const override {
    return shards_.CheckThoseOf(samples);
  }

  const Files& files() const { return files_; }
  const ShardFiles& shards() const { return shards_; }
  const SampleCheck& check() const { return check_; }
  const SampleCodec& codec() const { return codec_; }

 private:
  const DatasetInfo info_;
  const Files files_;
  const ShardFiles shards_;  // files_
  const SampleCheck check_;
  const SampleCodec codec_;
};

class LmdbReader final : public RecordReader {
 public:
  explicit LmdbReader(const LmdbSource& source)
      : source_(source),
        samples_(source.info().samples()),
        positions_(source.files().size()),
        views_(source.codec().fields()) {}

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    if (index < 0 || index >= samples_) return NoSuchSample(index, samples_);
    EncodedSample sample;
    const LmdbFile& file = Place(index, &sample);
    absl::Status status = Load(file, sample);
    const bool loaded = status.ok();
    if (loaded) {
      sample.fields = views_;
      status = visit(sample);
      if (status.ok()) return status;
    }
    // If the file has changed, the error is that change and not the sample.
    MR_RETURN_IF_ERROR(source_.shards().Check(sample.shard));
    if (loaded) return status;
    return AtSample(std::move(status),
                    source_.info().shards(sample.shard).name(), sample.row,
                    index);
  }

  void Prefetch(int64_t index) override {
    if (index < 0 || index >= samples_) return;
    EncodedSample sample;
    const LmdbFile& file = Place(index, &sample);
    absl::Span<const uint8_t> value;
    if (Find(file, sample, &value) == LmdbTree::Result::kFound) {
      file.Touch(value);
    }
  }

 private:
  // Sets shard and row of the sample; returns the file of the shard.
  const LmdbFile& Place(int64_t index, EncodedSample* sample) const {
    sample->shard = source_.shards().ShardOf(index);
    sample->row = index - source_.shards().first_sample(sample->shard);
    return *source_.files()[sample->shard];
  }

  LmdbTree::Result Find(const LmdbFile& file, const EncodedSample& sample,
                        absl::Span<const uint8_t>* value) {
    static_assert(std::endian::native == std::endian::little);
    const uint64_t key = __builtin_bswap64(static_cast<uint64_t>(sample.row));
    return file.TryGet({reinterpret_cast<const char*>(&key), sizeof(key)},
                       &positions_[sample.shard], value);
  }

  // Points views_ at the sample's fields.
  absl::Status Load(const LmdbFile& file, const EncodedSample& sample) {
    absl::Span<const uint8_t> value;
    switch (Find(file, sample, &value)) {
      case LmdbTree::Result::kNotFound:
        return absl::DataLossError(
            "the file does not contain this sample any more; copy the file "
            "again, or pack the dataset again");
      case LmdbTree::Result::kDamaged:
        return file.DamagedTree();
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
        " is an LMDB file without Millrace's metadata: its packing was "
        "interrupted, or it has no records; write it with `millrace-data "
        "pack`"));
  }
  if (!found.ok()) return found.status();
  // Copied, so that the record does not change while it is checked.
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
  Files in_order;
  for (const PackedShard& shard : packed) {
    in_order.push_back(std::move(open_files[shard.path]));
  }
  return std::make_unique<LmdbSource>(std::move(info), std::move(in_order),
                                      std::move(check));
}

}  // namespace millrace::storage
