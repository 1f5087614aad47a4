#include "server/storage/arrow/arrow_source.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/byte_budget.h"
#include "common/byte_size.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/arrow/arrow_dataset.h"
#include "server/storage/arrow/batch_column.h"
#include "server/storage/arrow/decoded_batch.h"
#include "server/storage/columns/cache_reservation.h"
#include "server/storage/columns/row_group_cache.h"
#include "server/storage/read_error.h"
#include "server/storage/sample_check.h"
#include "server/storage/shard_files.h"

namespace millrace::storage {
namespace {

using Shard = ArrowDataset::Shard;

// Max number of field sets whose sizes a source remembers.
constexpr size_t kMaxProjections = 64;

bool IsCompressed(const IpcMessage& message) {
  return message.codec != IpcMessage::Codec::kNone;
}

// Fields that are read together.
struct Projection {
  uint64_t id = 0;  // of this source
  std::vector<int> fields;
  // Memory to decompress the largest record batch in these columns; 0: none is
  // compressed.
  uint64_t max_batch_bytes = 0;
};

std::vector<int> Numbers(const std::vector<bool>& used) {
  std::vector<int> fields;
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) fields.push_back(static_cast<int>(i));
  }
  return fields;
}

Layouts LayoutsOf(const Shard& shard, const std::vector<int>& fields) {
  Layouts layouts;
  for (const int field : fields) layouts.push_back(&(*shard.columns)[field]);
  return layouts;
}

class ArrowSource final : public RecordSource {
 public:
  ArrowSource(std::unique_ptr<const ArrowDataset> dataset, SampleCheck check,
              uint64_t cache_bytes, const OpenSourceOptions& options,
              ByteBudget::Reservation reserved)
      : dataset_(std::move(dataset)),
        files_(dataset_->info(),
               [this](int shard) {
                 return dataset_->shard(shard).file->CheckUnchanged();
               }),
        check_(std::move(check)),
        cache_advice_(options.cache_advice),
        reserved_(std::move(reserved)),
        cache_(cache_bytes, /*keep=*/options.cache_budget != nullptr) {}

  const DatasetInfo& info() const override { return dataset_->info(); }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  ReadWait read_wait() const override {
    return dataset_->compressed() ? ReadWait::kRead : ReadWait::kPages;
  }
  // The number of readers that the cache has room for.
  uint32_t max_concurrent_reads() const override {
    if (!dataset_->compressed()) return 0;
    const uint64_t bytes = std::max<uint64_t>(1, max_batch_bytes_.load());
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(cache_.max_bytes() / bytes, 1, 1024));
  }
  absl::Status CheckFields(const std::vector<bool>& used) const override {
    return Project(used).status();
  }
  absl::Status CheckFieldsWithin(const std::vector<bool>& used,
                                 uint64_t cache_bytes) const override {
    Projection projection = {.fields = Numbers(used)};
    return Measure(cache_bytes, &projection);
  }
  uint64_t metadata_bytes() const override { return dataset_->memory_bytes(); }
  uint64_t unused_bytes() const override {
    return reserved_.bytes() -
           std::min(reserved_.bytes(), cache_.charged_bytes());
  }
  absl::Status CheckFiles() const override { return files_.CheckAll(); }
  absl::Status CheckFilesOf(absl::Span<const int64_t> samples) const override {
    return files_.CheckThoseOf(samples);
  }

  // ResourceExhausted: the cache has no room for any field. Logs a warning
  // where it has none for some. One scan for all fields, which may be many.
  absl::Status CheckAnyField(bool usage) const;

  const Shard& shard(int i) const { return dataset_->shard(i); }
  const ShardFiles& files() const { return files_; }
  const SampleCheck& check() const { return check_; }
  RowGroupCache& cache() const { return cache_; }

  // FailedPrecondition: the cache has no room for a record batch in these
  // columns; shows the calculation.
  absl::StatusOr<std::shared_ptr<const Projection>> Project(
      const std::vector<bool>& used) const MR_EXCLUDES(mu_);

  // Records that a reader uses these fields.
  void NoteUse(const Projection& projection) const {
    uint64_t before = max_batch_bytes_.load();
    while (before < projection.max_batch_bytes &&
           !max_batch_bytes_.compare_exchange_weak(
               before, projection.max_batch_bytes)) {
    }
  }

  // The decompressed columns of a record batch, `header` being its own.
  absl::StatusOr<RowGroupCache::Value> Load(
      const Projection& projection, int shard, int batch,
      const IpcFile::Header& header) const;

 private:
  using VisitBatch =
      absl::FunctionRef<void(int shard, int batch, const DecodedSize& size)>;
  // Calls `visit` with the decoded size of each compressed batch's `fields`.
  void ForEachCompressedBatch(const std::vector<int>& fields,
                              VisitBatch visit) const;
  // Sets max_batch_bytes. Errors as Project().
  absl::Status Measure(uint64_t cache_bytes, Projection* projection) const;
  absl::Status TooLarge(int shard, int batch, const DecodedSize& size,
                        const std::vector<int>& fields,
                        uint64_t cache_bytes) const;
  // `status`, or that the shard's file has changed.
  absl::Status OrChanged(int shard, absl::Status status) const {
    MR_RETURN_IF_ERROR(files_.Check(shard));
    return status;
  }

  const std::unique_ptr<const ArrowDataset> dataset_;
  const ShardFiles files_;  // of dataset_
  const SampleCheck check_;
  const std::function<std::string(uint64_t)> cache_advice_;  // may be null
  const ByteBudget::Reservation reserved_;  // the cache's bytes
  mutable RowGroupCache cache_;
  // Of the fields of all readers.
  mutable std::atomic<uint64_t> max_batch_bytes_{0};
  mutable Mutex mu_;
  mutable std::map<std::vector<bool>, std::shared_ptr<const Projection>>
      projections_ MR_GUARDED_BY(mu_);
  mutable uint64_t next_projection_ MR_GUARDED_BY(mu_) = 1;
};

absl::Status ArrowSource::TooLarge(int shard, int batch,
                                   const DecodedSize& size,
                                   const std::vector<int>& fields,
                                   uint64_t cache_bytes) const {
  std::string columns;
  for (size_t i = 0; i < fields.size(); ++i) {
    absl::StrAppend(&columns, i == 0 ? "" : ", ", "'",
                    info().schema().fields(fields[i]).name(), "' ",
                    FormatByteSize(size.columns[i]));
  }
  const uint64_t bytes = size.Sum();
  const std::string more = cache_advice_ ? cache_advice_(bytes) : "";
  return absl::FailedPreconditionError(absl::StrCat(
      dataset_->shard(shard).file->path(), ": decompressing record batch ",
      batch, " takes ", FormatExactByteSize(bytes), " of memory (columns ",
      columns, ", decompression ", FormatByteSize(size.codec),
      "), but the cache of decoded row groups has ",
      FormatExactByteSize(cache_bytes), " for this dataset; ", more,
      more.empty() ? "" : ", ",
      "remove the column from the pipeline's outputs, or write the file again "
      "without compression or with smaller record batches (pyarrow.feather."
      "write_feather: compression='uncompressed', chunksize=1000)"));
}

void ArrowSource::ForEachCompressedBatch(const std::vector<int>& fields,
                                         VisitBatch visit) const {
  IpcFile::Header header;
  DecodedSize size;
  for (int s = 0; s < dataset_->shards(); ++s) {
    const Shard& shard = dataset_->shard(s);
    if (!shard.file->compressed()) continue;
    const Layouts layouts = LayoutsOf(shard, fields);
    for (int batch = 0; batch < shard.file->batches(); ++batch) {
      // Damage is reported when the batch is read: other samples are served.
      if (shard.file->ReadHeader(batch, &header) &&
          IsCompressed(header.message) &&
          SizeOfBatch(header.message, shard.file->Body(batch, header), layouts,
                      &size)
              .ok()) {
        visit(s, batch, size);
      }
    }
  }
}

absl::Status ArrowSource::Measure(uint64_t cache_bytes,
                                  Projection* projection) const {
  if (!dataset_->compressed()) return absl::OkStatus();
  DecodedSize largest;
  int largest_shard = -1;
  int largest_batch = 0;
  ForEachCompressedBatch(projection->fields,
                         [&](int shard, int batch, const DecodedSize& size) {
                           if (size.Sum() <= projection->max_batch_bytes)
                             return;
                           projection->max_batch_bytes = size.Sum();
                           largest = size;
                           largest_shard = shard;
                           largest_batch = batch;
                         });
  if (projection->max_batch_bytes <= cache_bytes) return absl::OkStatus();
  return TooLarge(largest_shard, largest_batch, largest, projection->fields,
                  cache_bytes);
}

absl::Status ArrowSource::CheckAnyField(bool usage) const {
  if (!dataset_->compressed()) return absl::OkStatus();
  const auto fields = static_cast<size_t>(info().schema().fields_size());
  const std::vector<int> all = Numbers(std::vector<bool>(fields, true));
  std::vector<bool> fits(fields, true);
  ForEachCompressedBatch(all, [&](int, int, const DecodedSize& size) {
    for (size_t i = 0; i < fields; ++i) {
      const DecodedSize alone = {.columns = {size.columns[i]},
                                 .codec = size.codec};
      if (alone.Sum() > cache_.max_bytes()) fits[i] = false;
    }
  });
  const auto refused = std::find(fits.begin(), fits.end(), false);
  if (refused == fits.end()) return absl::OkStatus();
  std::vector<bool> alone(fields);
  alone[static_cast<size_t>(refused - fits.begin())] = true;
  const absl::Status why = CheckFields(alone);
  if (std::find(fits.begin(), fits.end(), true) == fits.end()) {
    const absl::Status none = absl::ResourceExhaustedError(absl::StrCat(
        "the server cannot serve any of its columns: ", why.message()));
    // On a server, the configuration sets the cache size.
    return usage ? UsageError(none) : none;
  }
  MR_LOG(WARNING) << "the server cannot serve all fields: " << why.message();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Projection>> ArrowSource::Project(
    const std::vector<bool>& used) const {
  auto made = std::make_shared<Projection>();
  {
    MutexLock lock(mu_);
    const auto known = projections_.find(used);
    if (known != projections_.end()) return known->second;
    made->id = next_projection_++;
  }
  made->fields = Numbers(used);
  MR_RETURN_IF_ERROR(Measure(cache_.max_bytes(), made.get()));
  MutexLock lock(mu_);
  if (projections_.size() >= kMaxProjections) projections_.clear();
  return projections_.emplace(used, std::move(made)).first->second;
}

absl::StatusOr<RowGroupCache::Value> ArrowSource::Load(
    const Projection& projection, int shard, int batch,
    const IpcFile::Header& header) const {
  const Shard& in = dataset_->shard(shard);
  const Layouts layouts = LayoutsOf(in, projection.fields);
  const absl::Span<const uint8_t> body = in.file->Body(batch, header);
  DecodedSize size;
  MR_RETURN_IF_ERROR(SizeOfBatch(header.message, body, layouts, &size));
  const uint64_t bytes = size.Sum();
  if (bytes > cache_.max_bytes()) {
    return OrChanged(shard, TooLarge(shard, batch, size, projection.fields,
                                     cache_.max_bytes()));
  }
  const RowGroupCache::Key key = {
      .shard = shard, .group = batch, .slice = 0, .columns = projection.id};
  return cache_.Get(
      key, bytes,
      [&](RowGroupCache::Room&) -> absl::StatusOr<RowGroupCache::Value> {
        auto decoded = DecodedBatch::Make(header.message, body, layouts, bytes);
        // The cache may keep only rows of the file as it was when it was
        // opened.
        MR_RETURN_IF_ERROR(files_.Check(shard));
        MR_RETURN_IF_ERROR(decoded.status());
        return *std::move(decoded);
      });
}

class ArrowReader final : public RecordReader {
 public:
  explicit ArrowReader(const ArrowSource& source)
      : source_(source),
        samples_(source.info().samples()),
        lease_(source.cache()),
        views_(source.check().fields()),
        scratch_(views_.size()) {}

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    if (index < 0 || index >= samples_) return NoSuchSample(index, samples_);
    MR_RETURN_IF_ERROR(UseDefault());
    const RowGroupCache::Lease::Pin pin(lease_);
    EncodedSample sample;
    Place(index, &sample);
    absl::Status status = Find(sample);
    const bool found = status.ok();
    if (found) {
      sample.fields = views_;
      status = visit(sample);
      if (status.ok()) return status;
    }
    // If the file has changed, the error is that change and not the sample.
    MR_RETURN_IF_ERROR(source_.files().Check(sample.shard));
    if (found) return status;
    return AtSample(std::move(status),
                    source_.info().shards(sample.shard).name(), sample.row,
                    index);
  }

  absl::Status UseFields(const std::vector<bool>& used) override {
    if (projection_ != nullptr && used == used_) return absl::OkStatus();
    MR_ASSIGN_OR_RETURN(projection_, source_.Project(used));
    used_ = used;
    source_.NoteUse(*projection_);
    Release();
    std::fill(views_.begin(), views_.end(), absl::Span<const uint8_t>());
    return absl::OkStatus();
  }

  void Prefetch(int64_t index) override {
    if (index < 0 || index >= samples_ || !UseDefault().ok()) return;
    const RowGroupCache::Lease::Pin pin(lease_);
    EncodedSample sample;
    Place(index, &sample);
    if (!Find(sample).ok()) return;
    const MappedPages& pages = source_.shard(sample.shard).file->pages();
    for (const int field : projection_->fields) pages.Touch(views_[field]);
  }

  void Release() override {
    const RowGroupCache::Lease::Pin pin(lease_);
    Forget();
  }

 private:
  absl::Status UseDefault() {
    return projection_ != nullptr
               ? absl::OkStatus()
               : UseFields(std::vector<bool>(views_.size(), true));
  }

  void Place(int64_t index, EncodedSample* sample) const {
    sample->shard = source_.files().ShardOf(index);
    sample->row = index - source_.files().first_sample(sample->shard);
  }

  void Forget() {
    shard_ = -1;
    decoded_ = false;
    lease_.value = nullptr;
  }

  // Points views_ to the fields of the sample.
  absl::Status Find(const EncodedSample& sample) {
    if (sample.shard != shard_ || sample.row < first_row_ ||
        sample.row >= end_row_ || (decoded_ && lease_.value == nullptr)) {
      MR_RETURN_IF_ERROR(MoveTo(sample));
    }
    const std::vector<BatchColumn>& columns =
        decoded_ ? static_cast<const DecodedBatch&>(*lease_.value).columns()
                 : columns_;
    for (size_t i = 0; i < columns.size(); ++i) {
      const int field = projection_->fields[i];
      MR_RETURN_IF_ERROR(columns[i].Read(sample.row - first_row_,
                                         &scratch_[field], &views_[field]));
      if (!decoded_) {
        source_.shard(sample.shard).file->pages().Advise(views_[field]);
      }
    }
    return source_.check().Check(views_, projection_->fields);
  }

  absl::Status MoveTo(const EncodedSample& sample) {
    const Shard& shard = source_.shard(sample.shard);
    const IpcFile& file = *shard.file;
    Forget();  // a reader that waits for room holds none
    const int batch = file.BatchOf(sample.row);
    if (!file.ReadHeader(batch, &header_)) {
      return absl::DataLossError(
          absl::StrCat("the header of record batch ", batch,
                       " is damaged; copy the file again, or write it again"));
    }
    if (IsCompressed(header_.message)) {
      MR_ASSIGN_OR_RETURN(lease_.value, source_.Load(*projection_, sample.shard,
                                                     batch, header_));
      decoded_ = true;
    } else {
      MR_RETURN_IF_ERROR(ResolveInPlace(shard, batch));
    }
    shard_ = sample.shard;
    first_row_ = file.first_row(batch);
    end_row_ = file.end_row(batch);
    return absl::OkStatus();
  }

  absl::Status ResolveInPlace(const Shard& shard, int batch) {
    const absl::Span<const uint8_t> body = shard.file->Body(batch, header_);
    const auto buffers =
        [&](uint64_t i) -> std::optional<absl::Span<const uint8_t>> {
      const std::optional<IpcBuffer> place = header_.message.BufferAt(i);
      if (!place.has_value()) return std::nullopt;
      return body.subspan(place->begin, place->bytes);
    };
    columns_.resize(projection_->fields.size());
    for (size_t i = 0; i < columns_.size(); ++i) {
      MR_RETURN_IF_ERROR(columns_[i].Resolve(
          (*shard.columns)[projection_->fields[i]], header_.message, buffers));
    }
    return absl::OkStatus();
  }

  const ArrowSource& source_;
  const int64_t samples_;
  std::shared_ptr<const Projection> projection_;  // null until it is needed
  std::vector<bool> used_;                        // of projection_
  RowGroupCache::Lease lease_;
  // The record batch of columns_, or where decoded_ is set, of lease_; shard
  // -1: there is none.
  int shard_ = -1;
  bool decoded_ = false;
  int64_t first_row_ = 0;  // rows of the shard
  int64_t end_row_ = 0;
  IpcFile::Header header_;
  std::vector<BatchColumn> columns_;
  std::vector<absl::Span<const uint8_t>> views_;
  std::vector<std::vector<uint8_t>> scratch_;  // by field
};

absl::StatusOr<std::unique_ptr<RecordReader>> ArrowSource::NewReader() const {
  return std::make_unique<ArrowReader>(*this);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenArrowSource(
    const ShardPaths& shards, const OpenSourceOptions& options) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<const ArrowDataset> dataset,
                      ArrowDataset::Open(shards, options));
  MR_ASSIGN_OR_RETURN(SampleCheck check,
                      SampleCheck::Create(dataset->info().schema()));
  uint64_t cache_bytes = 0;
  ByteBudget::Reservation reserved;
  if (dataset->compressed()) {
    MR_ASSIGN_OR_RETURN(cache_bytes,
                        ReserveCache(shards.files.front(), options, &reserved));
  }
  auto source =
      std::make_unique<ArrowSource>(std::move(dataset), std::move(check),
                                    cache_bytes, options, std::move(reserved));
  MR_RETURN_IF_ERROR(source->CheckAnyField(options.cache_budget != nullptr));
  return source;
}

}  // namespace millrace::storage
