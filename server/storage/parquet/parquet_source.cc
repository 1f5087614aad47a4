#include "server/storage/parquet/parquet_source.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/storage/content_hash.h"
#include "server/storage/file_error.h"
#include "server/storage/packed_set.h"
#include "server/storage/parquet/column_map.h"
#include "server/storage/parquet/features_json.h"
#include "server/storage/parquet/parquet_file.h"
#include "server/storage/parquet/row_group_cache.h"
#include "server/storage/read_error.h"
#include "server/storage/sample_check.h"

namespace millrace {
namespace {

using Files = std::vector<std::shared_ptr<const ParquetFile>>;

struct Shard {
  std::shared_ptr<const ParquetFile> file;
  std::vector<ColumnPlan> columns;
  int64_t first_sample = 0;
};

class ParquetSource final : public RecordSource {
 public:
  ParquetSource(DatasetInfo info, std::vector<Shard> shards, SampleCheck check,
                uint64_t group_bytes, const OpenSourceOptions& options)
      : info_(std::move(info)),
        shards_(std::move(shards)),
        check_(std::move(check)),
        group_bytes_(group_bytes),
        cache_bytes_(options.cache_budget == nullptr ? 0 : options.cache_bytes),
        cache_(options.cache_budget, options.cache_bytes) {}

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  ReadWait read_wait() const override { return ReadWait::kRead; }
  // As many as the cache has room for: those are counted.
  uint32_t max_concurrent_reads() const override {
    return static_cast<uint32_t>(std::clamp<uint64_t>(
        cache_bytes_ / std::max<uint64_t>(1, group_bytes_), 1, 1024));
  }

  // The shard that holds sample `index`, which exists.
  int ShardOf(int64_t index) const {
    const auto after = std::upper_bound(
        shards_.begin(), shards_.end(), index,
        [](int64_t i, const Shard& shard) { return i < shard.first_sample; });
    return static_cast<int>(after - shards_.begin()) - 1;
  }
  const Shard& shard(int i) const { return shards_[i]; }
  const SampleCheck& check() const { return check_; }

  absl::StatusOr<std::shared_ptr<const RowGroup>> Load(int shard,
                                                       int group) const {
    const Shard& s = shards_[shard];
    MR_ASSIGN_OR_RETURN(
        RowGroupCache::Value value,
        cache_.Get({shard, group},
                   [&]() -> absl::StatusOr<RowGroupCache::Value> {
                     return s.file->Decode(group, s.columns);
                   }));
    return std::static_pointer_cast<const RowGroup>(std::move(value));
  }

 private:
  const DatasetInfo info_;
  const std::vector<Shard> shards_;
  const SampleCheck check_;
  const uint64_t group_bytes_;  // of the largest row group
  const uint64_t cache_bytes_;
  mutable RowGroupCache cache_;
};

class ParquetReader final : public RecordReader {
 public:
  explicit ParquetReader(const ParquetSource& source)
      : source_(source),
        samples_(source.info().samples()),
        views_(source.check().fields()) {}

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    if (index < 0 || index >= samples_) return NoSuchSample(index, samples_);
    EncodedSample sample;
    // The next sample mostly lies where the last one did.
    sample.shard = index >= shard_begin_ && index < shard_end_
                       ? shard_
                       : source_.ShardOf(index);
    sample.row = index - source_.shard(sample.shard).first_sample;
    if (absl::Status status = Find(sample); !status.ok()) {
      return AtSample(std::move(status),
                      source_.info().shards(sample.shard).name(), sample.row,
                      index);
    }
    sample.fields = views_;
    return visit(sample);
  }

  void Release() override {
    shard_ = -1;
    shard_begin_ = shard_end_ = 0;
    group_.reset();
  }

 private:
  // Points views_ at the sample's fields.
  absl::Status Find(const EncodedSample& sample) {
    if (sample.shard != shard_ || sample.row < group_begin_ ||
        sample.row >= group_end_) {
      MR_RETURN_IF_ERROR(MoveTo(sample));
    }
    MR_RETURN_IF_ERROR(
        group_->Row(sample.row - group_begin_, absl::MakeSpan(views_)));
    return source_.check().Check(views_);
  }

  absl::Status MoveTo(const EncodedSample& sample) {
    const Shard& shard = source_.shard(sample.shard);
    const std::vector<int64_t>& starts = shard.file->group_starts();
    const int group =
        static_cast<int>(
            std::upper_bound(starts.begin(), starts.end(), sample.row) -
            starts.begin()) -
        1;
    // The old one first: at most one row group a reader that is not the
    // cache's.
    Release();
    MR_ASSIGN_OR_RETURN(group_, source_.Load(sample.shard, group));
    shard_ = sample.shard;
    shard_begin_ = shard.first_sample;
    shard_end_ = shard_begin_ + shard.file->rows();
    group_begin_ = starts[group];
    group_end_ = starts[group + 1];
    return absl::OkStatus();
  }

  const ParquetSource& source_;
  const int64_t samples_;
  // The row group that group_ holds; shard -1: none.
  int shard_ = -1;
  int64_t shard_begin_ = 0;  // logical indices
  int64_t shard_end_ = 0;
  int64_t group_begin_ = 0;  // rows of the shard
  int64_t group_end_ = 0;
  std::shared_ptr<const RowGroup> group_;
  std::vector<absl::Span<const uint8_t>> views_;
};

absl::StatusOr<std::unique_ptr<RecordReader>> ParquetSource::NewReader() const {
  return std::make_unique<ParquetReader>(*this);
}

// A row group that the cache cannot hold would be memory that nobody counts,
// once for every worker. The largest one's bytes.
absl::StatusOr<uint64_t> CheckGroupsFit(const std::vector<Shard>& shards,
                                        const OpenSourceOptions& options) {
  uint64_t most = 0;
  if (options.cache_budget == nullptr) return most;
  for (const Shard& shard : shards) {
    for (int i = 0; i < shard.file->row_groups(); ++i) {
      MR_ASSIGN_OR_RETURN(const uint64_t bytes,
                          shard.file->GroupBytes(i, shard.columns));
      most = std::max(most, bytes);
      if (bytes <= options.cache_bytes) continue;
      return absl::ResourceExhaustedError(absl::StrCat(
          shard.file->path(), ": row group ", i, " takes ", bytes,
          " bytes of memory, but the cache of decoded row groups has ",
          options.cache_bytes,
          " for this dataset; pack the dataset again, which makes small row "
          "groups, or raise --memory_budget or, in the configuration, "
          "row_group_cache_percent"));
    }
  }
  return most;
}

absl::StatusOr<Shard> PlanPackedShard(std::shared_ptr<const ParquetFile> file,
                                      const Schema& schema) {
  Shard shard{.file = std::move(file)};
  shard.first_sample = shard.file->packed()->first_sample();
  for (const Field& field : schema.fields()) {
    ColumnPlan plan{.name = field.name(),
                    .form = PackedForm(field),
                    .dtype = field.dtype()};
    MR_ASSIGN_OR_RETURN(plan.leaves, shard.file->Leaves(plan.name, plan.form));
    shard.columns.push_back(std::move(plan));
  }
  return shard;
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenPacked(
    const Files& files, const OpenSourceOptions& options) {
  std::vector<PackedShard> packed;
  std::map<std::string, std::shared_ptr<const ParquetFile>> by_path;
  for (const auto& file : files) {
    packed.push_back({.path = file->path(),
                      .bytes = file->bytes(),
                      .metadata = *file->packed()});
    by_path[file->path()] = file;
  }
  MR_ASSIGN_OR_RETURN(DatasetInfo info,
                      JoinShards("parquet", ".parquet", packed));
  MR_ASSIGN_OR_RETURN(SampleCheck check, SampleCheck::Create(info.schema()));
  std::vector<Shard> shards;
  for (const PackedShard& shard : packed) {
    MR_ASSIGN_OR_RETURN(Shard planned,
                        PlanPackedShard(by_path[shard.path], info.schema()));
    shards.push_back(std::move(planned));
  }
  MR_ASSIGN_OR_RETURN(const uint64_t group_bytes,
                      CheckGroupsFit(shards, options));
  return std::make_unique<ParquetSource>(std::move(info), std::move(shards),
                                         std::move(check), group_bytes,
                                         options);
}

// Fields and columns of a foreign file. `left_out` lists what has no place.
absl::StatusOr<Shard> PlanForeignShard(
    const std::shared_ptr<const ParquetFile>& file, Schema* schema,
    std::string* left_out) {
  std::map<std::string, ClassLabelFeature> labels;
  if (!file->features_json().empty()) {
    auto parsed = ParseClassLabels(file->features_json());
    if (parsed.ok()) {
      labels = *std::move(parsed);
    } else {
      MR_LOG(WARNING) << file->path() << ": its `huggingface` metadata is not "
                      << "JSON; class names are not known";
    }
  }
  Shard shard{.file = file};
  std::map<std::string, int> uses;
  for (const auto& column : file->schema().fields()) ++uses[column->name()];
  for (const auto& column : file->schema().fields()) {
    Field field;
    ColumnPlan plan{.name = column->name()};
    if (uses[column->name()] > 1 ||
        !FieldOfColumn(*column, labels, &field, &plan.form)) {
      absl::StrAppend(left_out, left_out->empty() ? "" : ", ", column->name(),
                      " (", column->type()->ToString(), ")");
      continue;
    }
    plan.dtype = field.dtype();
    MR_ASSIGN_OR_RETURN(plan.leaves, file->Leaves(plan.name, plan.form));
    shard.columns.push_back(std::move(plan));
    *schema->add_fields() = std::move(field);
  }
  return shard;
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenForeign(
    const Files& files, bool one_file, const OpenSourceOptions& options) {
  if (!one_file) {
    std::vector<std::string> paths;
    for (const auto& file : files) paths.push_back(file->path());
    MR_RETURN_IF_ERROR(CheckNumberedNames(paths, ".parquet"));
  }
  DatasetInfo info;
  info.set_format("parquet");
  std::vector<Shard> shards;
  std::string footers = "millrace foreign parquet 1";
  for (const auto& file : files) {
    Schema schema;
    std::string left_out;
    MR_ASSIGN_OR_RETURN(Shard shard,
                        PlanForeignShard(file, &schema, &left_out));
    if (shards.empty()) {
      if (schema.fields().empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            file->path(), " has no column that can be read: ", left_out));
      }
      if (!left_out.empty()) {
        MR_LOG(INFO) << file->path() << ": columns left out: " << left_out;
      }
      *info.mutable_schema() = std::move(schema);
    } else if (schema.SerializeAsString() !=
               info.schema().SerializeAsString()) {
      return absl::DataLossError(absl::StrCat(
          file->path(), " has another schema than ",
          FileName(files.front()->path()),
          "; the shards of a dataset must have the same columns, types and "
          "classes"));
    }
    shard.first_sample = info.samples();
    ShardInfo* entry = info.add_shards();
    entry->set_name(FileName(file->path()));
    entry->set_first_sample(info.samples());
    entry->set_samples(file->rows());
    entry->set_bytes(file->bytes());
    info.set_samples(info.samples() + file->rows());
    const uint64_t length = file->footer().size();
    footers.append(reinterpret_cast<const char*>(&length), sizeof(length));
    footers.append(file->footer());
    shards.push_back(std::move(shard));
  }
  if (info.samples() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.front()->path(), " has no rows"));
  }
  info.set_fingerprint(HashToHex(HashBytes(
      {reinterpret_cast<const uint8_t*>(footers.data()), footers.size()})));
  MR_ASSIGN_OR_RETURN(SampleCheck check, SampleCheck::Create(info.schema()));
  MR_ASSIGN_OR_RETURN(const uint64_t group_bytes,
                      CheckGroupsFit(shards, options));
  return std::make_unique<ParquetSource>(std::move(info), std::move(shards),
                                         std::move(check), group_bytes,
                                         options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenParquetSource(
    const ShardPaths& shards, const OpenSourceOptions& options) {
  Files files;
  for (const std::string& path : shards.files) {
    MR_ASSIGN_OR_RETURN(auto file, ParquetFile::Open(path));
    files.push_back(std::move(file));
  }
  const bool packed = files.front()->packed().has_value();
  for (const auto& file : files) {
    if (file->packed().has_value() != packed) {
      return absl::DataLossError(absl::StrCat(
          file->path(), " and ", FileName(files.front()->path()),
          " were written by different programs; keep the shards of one "
          "dataset"));
    }
  }
  return packed ? OpenPacked(files, options)
                : OpenForeign(files, shards.one_file, options);
}

}  // namespace millrace
