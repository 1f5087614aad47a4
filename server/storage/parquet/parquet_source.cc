#include "server/storage/parquet/parquet_source.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/byte_budget.h"
#include "common/byte_size.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/columns/bounded_pool.h"
#include "server/storage/columns/cache_reservation.h"
#include "server/storage/columns/column_map.h"
#include "server/storage/columns/features_json.h"
#include "server/storage/columns/foreign_schema.h"
#include "server/storage/columns/row_group_cache.h"
#include "server/storage/content_hash.h"
#include "server/storage/image_presets.h"
#include "server/storage/parquet/chunk_cost.h"
#include "server/storage/parquet/decode_bound.h"
#include "server/storage/parquet/foreign_fingerprint.h"
#include "server/storage/parquet/page_header.h"
#include "server/storage/parquet/page_rows.h"
#include "server/storage/parquet/parquet_file.h"
#include "server/storage/parquet/parquet_paths.h"
#include "server/storage/parquet/slice_plan.h"
#include "server/storage/read_error.h"
#include "server/storage/sample_check.h"
#include "server/storage/shard_files.h"
#include "server/storage/shard_set.h"

namespace millrace::storage {
namespace {

using Files = std::vector<std::shared_ptr<const ParquetFile>>;
using Reservations = std::vector<ByteBudget::Reservation>;

// Max bytes of what a source remembers of the rows in pages of lists: 8 bytes
// for each page of all files.
constexpr uint64_t kMaxPageRowsBytes = 1 << 20;

// Max number of field sets whose plans a source remembers, and max bytes of a
// refusal that it remembers.
constexpr size_t kMaxProjections = 64;
constexpr size_t kMaxRefusalBytes = 16 << 10;
// Of a shard's name in DatasetInfo.
constexpr size_t kMaxShardNameBytes = 4096;

constexpr absl::string_view kSmallerValues = "smaller values or pages";
constexpr absl::string_view kNoDictionary =
    "smaller values, or without a dictionary (pyarrow: use_dictionary=False)";
constexpr absl::string_view kNoStatistics =
    "smaller values, or without statistics (pyarrow: write_statistics=False; "
    "polars: statistics=False)";
constexpr absl::string_view kOtherCodec =
    "another compression (pyarrow: compression='zstd')";
constexpr absl::string_view kSmallerPages =
    "smaller pages (pyarrow: write_batch_size=1; a page ends only after a "
    "multiple of write_batch_size rows, 1024 by default)";

// Advice for a cache without enough room. `more`: the setting that enlarges the
// cache; empty: there is none. `smaller`: the change for a file that is
// rewritten.
std::string MoreCache(const std::string& more, absl::string_view smaller) {
  return absl::StrCat(more, more.empty() ? "" : ", ",
                      "remove the column from the pipeline's outputs, or write "
                      "the file again with ",
                      smaller);
}

struct Shard {
  std::shared_ptr<const ParquetFile> file;
  std::vector<ColumnPlan> columns;
  std::vector<std::vector<ChunkCost>> costs;  // of each column's row groups
  // Values of the fields behind the columns, from the names of folders.
  std::vector<int64_t> partitions;
};

// Bytes that are kept of the footers.
uint64_t MetadataBytes(const std::vector<Shard>& shards) {
  uint64_t bytes = 0;
  for (const Shard& shard : shards) {
    bytes += shard.file->metadata_bytes();
    for (const std::vector<ChunkCost>& costs : shard.costs) {
      bytes += costs.size() * sizeof(ChunkCost);
    }
  }
  return bytes;
}

// Admits the footers of a dataset's files while options.metadata_budget has
// room for them.
class FooterRoom {
 public:
  explicit FooterRoom(const OpenSourceOptions& options) : options_(options) {}

  // Admits the next file. Not OK: there is no room, and full() is true from now
  // on.
  absl::Status Admit(uint64_t bytes, uint64_t chunks) {
    ByteBudget* const budget = options_.metadata_budget;
    if (budget == nullptr) return absl::OkStatus();
    full_ = !budget->TryReserve(Kept(bytes, chunks), &taken_.emplace_back());
    return full_ ? absl::ResourceExhaustedError("no room") : absl::OkStatus();
  }

  bool full() const { return full_; }
  Reservations Take() { return std::move(taken_); }

  // The message gives the bytes of the footers of all `files`, so that the
  // named setting is large enough for all of them.
  absl::Status Refusal(const std::vector<std::string>& files) {
    taken_.clear();
    uint64_t bytes = 0;
    for (const std::string& path : files) {
      // Errors are ignored: damage is reported when the file is opened with
      // enough room.
      static_cast<void>(
          ParquetFile::Open(path, [&](uint64_t footer, uint64_t chunks) {
            bytes += Kept(footer, chunks);
            return absl::CancelledError("its footer is not parsed");
          }));
    }
    const ByteBudget& budget = *options_.metadata_budget;
    const std::string more = options_.metadata_advice
                                 ? options_.metadata_advice(bytes, nullptr)
                                 : "";
    return UsageError(absl::ResourceExhaustedError(absl::StrCat(
        "the footers of its files need about ", FormatExactByteSize(bytes),
        " of memory after parsing, and the memory budget has ",
        FormatExactByteSize(budget.capacity() - budget.used()),
        " for the footers of Parquet files: ", more,
        more.empty() ? "" : ", or ",
        "write the files again with larger row groups or fewer columns")));
  }

 private:
  // The same as MetadataBytes() for one file.
  static uint64_t Kept(uint64_t footer, uint64_t chunks) {
    return footer + chunks * sizeof(ChunkCost);
  }

  const OpenSourceOptions& options_;
  Reservations taken_;
  bool full_ = false;
};

// Fields that are read together, and the slices in which they are read.
struct Projection {
  uint64_t id = 0;  // of this source
  std::vector<bool> used;
  std::vector<int> fields;  // of columns
  // For each shard and row group: the rows of a slice and the memory to decode
  // one.
  std::vector<std::vector<SlicePlan>> slices;
  uint64_t max_slice_bytes = 1;
  // Upper bound of the memory of all rows, decoded.
  uint64_t all_bytes = 0;
  std::vector<std::string> warnings;
};

class ParquetSource final : public RecordSource {
 public:
  ParquetSource(DatasetInfo info, std::vector<Shard> shards, SampleCheck check,
                uint64_t cache_bytes, const OpenSourceOptions& options,
                ByteBudget::Reservation reserved, Reservations footers)
      : info_(std::move(info)),
        shards_(std::move(shards)),
        files_(info_,
               [this](int shard) {
                 return shards_[shard].file->CheckUnchanged();
               }),
        check_(std::move(check)),
        metadata_bytes_(MetadataBytes(shards_)),
        cache_advice_(options.cache_advice),
        footers_(std::move(footers)),
        reserved_(std::move(reserved)),
        cache_(cache_bytes, /*keep=*/options.cache_budget != nullptr) {}

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  ReadWait read_wait() const override { return ReadWait::kRead; }
  // The number of readers that the cache has room for.
  uint32_t max_concurrent_reads() const override {
    const uint64_t bytes = std::max<uint64_t>(1, max_slice_bytes_.load());
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(cache_.max_bytes() / bytes, 1, 1024));
  }
  absl::Status CheckFields(const std::vector<bool>& used) const override {
    return Project(used).status();
  }
  std::vector<std::string> WarningsOf(
      const std::vector<bool>& used) const override {
    const auto projection = Project(used);
    return projection.ok() ? (*projection)->warnings
                           : std::vector<std::string>();
  }
  absl::Status CheckFieldsWithin(const std::vector<bool>& used,
                                 uint64_t cache_bytes) const override {
    Projection projection;
    return Plan(used, cache_bytes, /*reads_pages=*/false, &projection);
  }
  uint64_t metadata_bytes() const override { return metadata_bytes_; }
  uint64_t unused_bytes() const override {
    return reserved_.bytes() -
           std::min(reserved_.bytes(), cache_.charged_bytes());
  }
  absl::Status CheckFiles() const override { return files_.CheckAll(); }
  absl::Status CheckFilesOf(absl::Span<const int64_t> samples) const override {
    return files_.CheckThoseOf(samples);
  }

  const Shard& shard(int i) const { return shards_[i]; }
  const ShardFiles& files() const { return files_; }
  const SampleCheck& check() const { return check_; }
  RowGroupCache& cache() const { return cache_; }

  // FailedPrecondition: the cache has no room for a row of these fields. The
  // message has the row group and the calculation. `warn`: the fields are to be
  // read, so that a warning is due where that is slow.
  absl::StatusOr<std::shared_ptr<const Projection>> Project(
      const std::vector<bool>& used, bool warn = true) const;

  // Sets fields, slices and max_slice_bytes for a cache of `cache_bytes`.
  // Errors as Project(). `reads_pages`: page headers are read, so that the
  // number in a refusal is also large enough for the pages of strings.
  absl::Status Plan(const std::vector<bool>& used, uint64_t cache_bytes,
                    bool reads_pages, Projection* projection) const;

  // Records that a reader uses these fields.
  void NoteUse(const Projection& projection) const;

  // The slice that contains row `row` of a shard's row group. *begin and *end
  // are its rows in the row group.
  absl::StatusOr<RowGroupCache::Value> Load(const Projection& projection,
                                            int shard, int group, int64_t row,
                                            int64_t* begin, int64_t* end) const;

 private:
  absl::StatusOr<RowGroupCache::Value> Decode(const Projection& projection,
                                              int shard,
                                              const ParquetFile::Slice& slice,
                                              RowGroupCache::Room& room) const;
  // Advice: a cache of `bytes` is large enough.
  std::string MoreCacheFor(uint64_t bytes, absl::string_view smaller) const {
    return MoreCache(cache_advice_ ? cache_advice_(bytes) : "", smaller);
  }
  std::vector<ParquetFile::Column> ColumnsOf(absl::Span<const int> fields,
                                             const Shard& shard,
                                             int group) const;
  // The cache size that is large enough for columns of a row group.
  struct Enough {
    uint64_t bytes = 0;
    // There are strings with pages above the planned size.
    bool unplanned = false;
    // The size of the largest page, and the number of its values (of a
    // dictionary: not known).
    uint64_t page_bytes = 0;
    uint64_t page_values = 0;
    bool dictionary = false;
    uint64_t header_bytes = 0;  // of the longest page header
    // To decompress a page, where the plan has less; otherwise 0.
    uint64_t codec_bytes = 0;

    // Whether decompression, or else the header, takes more memory than the
    // page.
    bool codec() const {
      return codec_bytes > std::max(HeaderMemory(), page_bytes);
    }
    bool header() const { return !codec() && HeaderMemory() > page_bytes; }
    bool values() const { return !codec() && !header() && !dictionary; }
    uint64_t HeaderMemory() const {
      return static_cast<uint64_t>(
          PageHeaderMemory(static_cast<int64_t>(header_bytes)));
    }
    // "its largest page has 11.4 MiB".
    std::string Page() const {
      if (codec()) {
        return absl::StrCat("decompressing a page takes ",
                            FormatByteSize(codec_bytes));
      }
      if (header()) {
        return absl::StrCat("statistics in the header of a page have ",
                            FormatByteSize(header_bytes));
      }
      return absl::StrCat("its ", dictionary ? "dictionary" : "largest",
                          " page has ", FormatByteSize(page_bytes));
    }
    absl::string_view Smaller() const {
      if (codec()) return kOtherCodec;
      if (header()) return kNoStatistics;
      if (dictionary) return kNoDictionary;
      return page_values == 1 ? kSmallerValues : kSmallerPages;
    }
  };
  // The cache size that is large enough, at least `cache_bytes`. Reads the
  // headers of all pages; errors as ParquetFile::BoundsOf().
  absl::StatusOr<Enough> EnoughFor(
      const Shard& shard, int group,
      absl::Span<const ParquetFile::Column> columns,
      uint64_t cache_bytes) const;
  // Sentences about lists whose pages contain many times the rows of a slice,
  // by field.
  std::map<int, std::string> SlowLists(const Projection& projection) const;
  // Logs a warning, once for each field.
  void WarnOfSlowReads(int shard, const ParquetFile::Slice& slice,
                       const ParquetFile::Waste& waste,
                       int64_t slice_rows) const;
  // Whether no warning of the field has been logged before.
  bool WarnOnce(int field) const MR_EXCLUDES(mu_);

  // The result of planning for a set of fields.
  struct Planned {
    // Held during planning. A refusal reads the headers of pages, which takes
    // as long as the storage.
    Mutex mu;
    std::weak_ptr<const Projection> made MR_GUARDED_BY(mu);
    std::string refused MR_GUARDED_BY(mu);  // empty: not refused so far
  };
  std::shared_ptr<Planned> PlannedFor(const std::vector<bool>& used) const
      MR_REQUIRES(mu_);

  const DatasetInfo info_;
  const std::vector<Shard> shards_;
  const ShardFiles files_;  // of shards_
  const SampleCheck check_;
  const uint64_t metadata_bytes_;
  const std::function<std::string(uint64_t)> cache_advice_;  // may be null
  const Reservations footers_;              // of options.metadata_budget
  const ByteBudget::Reservation reserved_;  // the cache's bytes
  mutable RowGroupCache cache_;
  mutable PageRows page_rows_{kMaxPageRowsBytes};
  // Max bytes to decode a slice, of all readers.
  mutable std::atomic<uint64_t> max_slice_bytes_{1};
  // Never held while a file is read or a Planned::mu is taken.
  mutable Mutex mu_;
  struct LastUsed {
    std::shared_ptr<Planned> planned;
    uint64_t at = 0;  // counts in next_projection_
  };
  // The most recently used projections. There are few: one for each set of
  // outputs.
  mutable std::map<std::vector<bool>, LastUsed> projections_ MR_GUARDED_BY(mu_);
  mutable uint64_t next_projection_ MR_GUARDED_BY(mu_) = 0;
  mutable std::set<int> warned_fields_ MR_GUARDED_BY(mu_);
};

absl::StatusOr<std::shared_ptr<const Projection>> ParquetSource::Project(
    const std::vector<bool>& used, bool warn) const {
  auto made = std::make_shared<Projection>();
  made->used = used;
  std::shared_ptr<Planned> planned;
  {
    MutexLock lock(mu_);
    made->id = next_projection_++;
    planned = PlannedFor(used);
  }
  // Only readers of the same fields wait for the plan.
  MutexLock lock(planned->mu);
  if (auto known = planned->made.lock()) return known;
  if (!planned->refused.empty()) {
    return absl::FailedPreconditionError(planned->refused);
  }
  const absl::Status status =
      Plan(used, cache_.max_bytes(), /*reads_pages=*/true, made.get());
  if (status.ok()) {
    planned->made = made;
    if (warn) {
      for (auto& [field, warning] : SlowLists(*made)) {
        if (WarnOnce(field)) MR_LOG(WARNING) << warning;
        made->warnings.push_back(std::move(warning));
      }
    }
    return made;
  }
  // The files and the cache do not change, so the refusal stays valid.
  if (status.message().size() <= kMaxRefusalBytes) {
    planned->refused = std::string(status.message());
  }
  return status;
}

std::shared_ptr<ParquetSource::Planned> ParquetSource::PlannedFor(
    const std::vector<bool>& used) const {
  if (!projections_.contains(used) && projections_.size() >= kMaxProjections) {
    projections_.erase(std::min_element(projections_.begin(),
                                        projections_.end(),
                                        [](const auto& a, const auto& b) {
                                          return a.second.at < b.second.at;
                                        }));
  }
  LastUsed& entry = projections_[used];
  entry.at = next_projection_;
  if (entry.planned == nullptr) entry.planned = std::make_shared<Planned>();
  return entry.planned;
}

absl::Status ParquetSource::Plan(const std::vector<bool>& used,
                                 uint64_t cache_bytes, bool reads_pages,
                                 Projection* made) const {
  const size_t columns = shards_.front().columns.size();
  for (size_t i = 0; i < std::min(columns, used.size()); ++i) {
    if (used[i]) made->fields.push_back(static_cast<int>(i));
  }
  // The refusal for the row group with the largest rows, if the cache has no
  // room for one of its rows.
  std::string refused;
  uint64_t refused_bytes = cache_bytes;
  const Shard* refused_shard = nullptr;
  int refused_group = 0;
  absl::string_view smaller;
  uint64_t max_codec = 0;
  for (const Shard& shard : shards_) {
    std::vector<SlicePlan>& slices = made->slices.emplace_back();
    const std::vector<int64_t>& starts = shard.file->group_starts();
    for (int group = 0; group < shard.file->row_groups(); ++group) {
      std::vector<ChunkCost> costs;
      const int64_t rows = starts[group + 1] - starts[group];
      for (const int field : made->fields) {
        costs.push_back(shard.costs[field][group]);
        made->all_bytes += costs.back().Bytes(rows);
      }
      slices.push_back(PlanSlices(rows, costs, cache_bytes));
      made->max_slice_bytes =
          std::max(made->max_slice_bytes, slices.back().bytes);
      uint64_t bytes = slices.back().bytes;  // of one row, if above the cache
      uint64_t one_row = 0;
      uint64_t codec = 0;
      for (const ChunkCost& cost : costs) {
        one_row += cost.OneRowBytes();
        codec = std::max(codec, cost.CodecBytes());
      }
      max_codec = std::max(max_codec, codec);
      bytes = std::max(bytes, one_row + codec);
      if (bytes <= refused_bytes) continue;
      refused_bytes = bytes;
      std::string columns;
      for (size_t i = 0; i < costs.size(); ++i) {
        absl::StrAppend(&columns, i == 0 ? "" : ", ", "'",
                        shard.columns[made->fields[i]].name, "' ",
                        FormatByteSize(costs[i].OneRowBytes()));
      }
      refused_shard = &shard;
      refused_group = group;
      smaller = codec > one_row ? kOtherCodec : kSmallerValues;
      refused = absl::StrCat(
          shard.file->path(), ": decoding one row of row group ", group,
          " takes ", FormatExactByteSize(bytes), " of memory (columns ",
          columns,
          codec == 0 ? ""
                     : absl::StrCat(", decompression ", FormatByteSize(codec)),
          ")");
    }
  }
  made->all_bytes += max_codec;
  if (refused.empty()) return absl::OkStatus();
  uint64_t enough = refused_bytes;
  if (reads_pages) {
    const auto more = EnoughFor(
        *refused_shard, refused_group,
        ColumnsOf(made->fields, *refused_shard, refused_group), enough);
    // Otherwise the planned size is large enough. Damaged pages are reported
    // when they are decoded.
    if (more.ok() && more->unplanned && more->bytes > enough) {
      enough = more->bytes;
      absl::StrAppend(&refused, ", or up to ", FormatExactByteSize(enough),
                      ", because ", more->Page());
      if (!more->values()) smaller = more->Smaller();
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat(refused, ", but the cache of decoded row groups has ",
                   FormatExactByteSize(cache_bytes), " for this dataset; ",
                   MoreCacheFor(enough, smaller)));
}

void ParquetSource::NoteUse(const Projection& projection) const {
  const uint64_t bytes = projection.max_slice_bytes;
  uint64_t before = max_slice_bytes_.load();
  while (before < bytes &&
         !max_slice_bytes_.compare_exchange_weak(before, bytes)) {
  }
}

absl::StatusOr<RowGroupCache::Value> ParquetSource::Load(
    const Projection& projection, int shard, int group, int64_t row,
    int64_t* begin, int64_t* end) const {
  const std::vector<int64_t>& starts = shards_[shard].file->group_starts();
  const SlicePlan& plan = projection.slices[shard][group];
  const int64_t number = row / plan.rows;
  *begin = number * plan.rows;
  *end = std::min(*begin + plan.rows, starts[group + 1] - starts[group]);
  const RowGroupCache::Key key = {.shard = shard,
                                  .group = group,
                                  .slice = number,
                                  .columns = projection.id};
  return cache_.Get(key, plan.bytes, [&](RowGroupCache::Room& room) {
    return Decode(projection, shard,
                  {.group = group, .begin = *begin, .end = *end}, room);
  });
}

absl::StatusOr<RowGroupCache::Value> ParquetSource::Decode(
    const Projection& projection, int shard, const ParquetFile::Slice& slice,
    RowGroupCache::Room& room) const {
  const Shard& in = shards_[shard];
  const std::vector<ParquetFile::Column> columns =
      ColumnsOf(projection.fields, in, slice.group);
  auto pool = std::make_shared<BoundedPool>(
      room.bytes(), [&room](uint64_t more) { return room.Grow(more); });
  ParquetFile::Waste waste;
  auto decoded = in.file->Decode(
      slice, columns, {.rows = &page_rows_, .shard = shard}, pool, &waste);
  pool->Close();
  // The cache may keep only rows of the file as it was when it was opened.
  MR_RETURN_IF_ERROR(files_.Check(shard));
  if (decoded.ok()) {
    const SlicePlan& plan = projection.slices[shard][slice.group];
    if (waste.bytes > plan.bytes && projection.all_bytes > cache_.max_bytes()) {
      WarnOfSlowReads(shard, slice, waste, plan.rows);
    }
    return *std::move(decoded);
  }
  if (!absl::IsFailedPrecondition(decoded.status())) return decoded.status();
  // With less room than the maximum, the read is tried again.
  if (room.bytes() < room.max_bytes()) return decoded.status();
  std::string why =
      absl::StrCat(decoded.status().message(),
                   ", the size of this dataset's cache of decoded row groups");
  const auto enough = EnoughFor(in, slice.group, columns, room.max_bytes());
  if (!enough.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(why, "; ", MoreCache("", kSmallerValues)));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      why, ": it needs up to ", FormatExactByteSize(enough->bytes),
      ", because ", enough->Page(),
      enough->values()
          ? absl::StrCat(" (", CountText(enough->page_values, "value"), ")")
          : "",
      "; ", MoreCacheFor(enough->bytes, enough->Smaller())));
}

std::vector<ParquetFile::Column> ParquetSource::ColumnsOf(
    absl::Span<const int> fields, const Shard& shard, int group) const {
  std::vector<ParquetFile::Column> columns;
  for (const int field : fields) {
    columns.push_back({.field = field,
                       .plan = &shard.columns[field],
                       .cost = shard.costs[field][group]});
  }
  return columns;
}

absl::StatusOr<ParquetSource::Enough> ParquetSource::EnoughFor(
    const Shard& shard, int group,
    absl::Span<const ParquetFile::Column> columns, uint64_t cache_bytes) const {
  MR_ASSIGN_OR_RETURN(const std::vector<DecodeBound> bounds,
                      shard.file->BoundsOf(group, columns));
  Enough enough = {.bytes = cache_bytes};
  std::vector<ChunkCost> costs;
  uint64_t planned_codec = 0;
  uint64_t codec_bytes = 0;
  for (const DecodeBound& bound : bounds) {
    costs.push_back(bound.cost);
    planned_codec = std::max(planned_codec, bound.cost.CodecBytes());
    codec_bytes =
        std::max(codec_bytes, static_cast<uint64_t>(bound.pages.codec));
    // The plan has counted a dictionary that stays one.
    const uint64_t dictionary =
        bound.cost.dictionary ? 0 : bound.pages.dictionary;
    const uint64_t page = std::max(bound.pages.encoded, dictionary);
    const auto header = static_cast<uint64_t>(bound.pages.header);
    enough.header_bytes = std::max(enough.header_bytes, header);
    enough.unplanned |= PageHeaderMemory(bound.pages.header) > 0 ||
                        (bound.strings && page > ChunkCost::kPageBytes);
    if (page <= enough.page_bytes) continue;
    enough.page_bytes = page;
    enough.page_values = bound.pages.values;
    enough.dictionary = dictionary > bound.pages.encoded;
  }
  const uint64_t more_codec =
      codec_bytes - std::min(codec_bytes, planned_codec);
  if (more_codec > 0) {
    enough.codec_bytes = codec_bytes;
    enough.unplanned = true;
  }
  const std::vector<int64_t>& starts = shard.file->group_starts();
  const int64_t rows = starts[group + 1] - starts[group];
  // A larger cache allows larger slices, up to the row group.
  while (true) {
    const SlicePlan plan = PlanSlices(rows, costs, enough.bytes);
    uint64_t max_bytes = plan.bytes + more_codec;
    for (const DecodeBound& bound : bounds) {
      max_bytes += bound.Bytes(plan.rows) - bound.cost.Bytes(plan.rows);
    }
    if (max_bytes <= enough.bytes) return enough;
    enough.bytes = max_bytes;
  }
}

bool ParquetSource::WarnOnce(int field) const {
  MutexLock lock(mu_);
  return warned_fields_.insert(field).second;
}

// The way out for a file with slices of `slice_rows` rows. `hidden`: the rows
// of its pages cannot be counted.
std::string SmallerGroups(int64_t slice_rows, bool hidden) {
  return absl::StrCat(
      "write the file again with row groups of at most ", slice_rows,
      " rows (pyarrow: row_group_size=", slice_rows,
      "), or with pages of fewer rows (max_rows_per_page)",
      hidden ? " and either data_page_version='2.0' or write_page_index=True"
             : "");
}

std::map<int, std::string> ParquetSource::SlowLists(
    const Projection& projection) const {
  // The cache keeps all rows, so that each slice is decoded once.
  if (projection.all_bytes <= cache_.max_bytes()) return {};
  struct Worst {
    int shard = 0;
    int group = 0;
    int64_t page_rows = 0;
    int64_t in_vain = 0;  // rows that are decoded for a slice, on average
    double bytes = 0;     // of these
  };
  std::map<int, Worst> worst;  // by field
  // By shard and field: its pages are alike, and finding out reads the file.
  std::map<std::pair<size_t, int>, int64_t> page_rows;
  for (size_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = shards_[s];
    const std::vector<int64_t>& starts = shard.file->group_starts();
    for (int group = 0; group < shard.file->row_groups(); ++group) {
      const int64_t rows = starts[group + 1] - starts[group];
      const SlicePlan& plan = projection.slices[s][group];
      for (const int field : projection.fields) {
        const ColumnForm form = shard.columns[field].form;
        if (form != ColumnForm::kFixedList && form != ColumnForm::kList) {
          continue;
        }
        const ChunkCost& cost = shard.costs[field][group];
        Worst& most = worst[field];
        // Whether pages of `page` rows cost the most so far. Less than a slice
        // in vain is not worth a warning.
        const auto costs_more = [&](int64_t page) {
          const double bytes =
              cost.per_row * static_cast<double>((page - plan.rows) / 2);
          return bytes > std::max(most.bytes, static_cast<double>(plan.bytes));
        };
        if (!costs_more(rows)) continue;
        const auto [known, is_new] = page_rows.try_emplace({s, field}, 0);
        if (is_new) {
          known->second =
              shard.file->FirstPageRows(group, shard.columns[field]);
        }
        const int64_t page = std::min(known->second, rows);
        if (!costs_more(page)) continue;
        const int64_t in_vain = (page - plan.rows) / 2;
        most = {.shard = static_cast<int>(s),
                .group = group,
                .page_rows = page,
                .in_vain = in_vain,
                .bytes = cost.per_row * static_cast<double>(in_vain)};
      }
    }
  }
  std::map<int, std::string> warnings;
  for (const auto& [field, most] : worst) {
    if (most.bytes == 0) continue;
    const Shard& shard = shards_[most.shard];
    const int64_t slice_rows = projection.slices[most.shard][most.group].rows;
    const std::string more =
        cache_advice_ ? cache_advice_(projection.all_bytes) : "";
    warnings[field] = absl::StrCat(
        shard.file->path(), ": random reads of column '",
        shard.columns[field].name,
        "' are slow: for each row of a batch, about ", most.in_vain,
        " other rows of row group ", most.group,
        " are decoded, because its pages contain about ", most.page_rows,
        " rows; ", SmallerGroups(slice_rows, /*hidden=*/false),
        more.empty()
            ? ""
            : absl::StrCat(", or ", more, ", which keeps all rows decoded"));
  }
  return warnings;
}

void ParquetSource::WarnOfSlowReads(int shard, const ParquetFile::Slice& slice,
                                    const ParquetFile::Waste& waste,
                                    int64_t slice_rows) const {
  if (!WarnOnce(waste.field)) return;
  const ParquetFile& file = *shards_[shard].file;
  const std::vector<int64_t>& starts = file.group_starts();
  MR_LOG(WARNING) << file.path() << ": random reads of column '"
                  << shards_[shard].columns[waste.field].name
                  << "' are slow: to read rows " << slice.begin << " to "
                  << slice.end << " of row group " << slice.group << " ("
                  << starts[slice.group + 1] - starts[slice.group] << " rows), "
                  << waste.rows << " earlier rows were decoded too, because "
                  << (waste.hidden
                          ? "its pages begin inside of lists, or are damaged"
                          : "its pages contain many rows")
                  << "; " << SmallerGroups(slice_rows, waste.hidden);
}

class ParquetReader final : public RecordReader {
 public:
  explicit ParquetReader(const ParquetSource& source)
      : source_(source),
        samples_(source.info().samples()),
        lease_(source.cache()),
        views_(source.check().fields()) {}

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    if (index < 0 || index >= samples_) return NoSuchSample(index, samples_);
    if (projection_ == nullptr) {
      MR_RETURN_IF_ERROR(UseFields(std::vector<bool>(views_.size(), true)));
    }
    const RowGroupCache::Lease::Pin pin(lease_);
    EncodedSample sample;
    // The next sample is usually in the same shard as the last one.
    sample.shard = index >= shard_begin_ && index < shard_end_
                       ? shard_
                       : source_.files().ShardOf(index);
    sample.row = index - source_.files().first_sample(sample.shard);
    if (absl::Status status = Find(sample); !status.ok()) {
      // If the file has changed, the error is that change and not the sample.
      MR_RETURN_IF_ERROR(source_.files().Check(sample.shard));
      return AtSample(std::move(status),
                      source_.info().shards(sample.shard).name(), sample.row,
                      index);
    }
    sample.fields = views_;
    return visit(sample);
  }

  absl::Status UseFields(const std::vector<bool>& used) override {
    if (projection_ != nullptr && used == projection_->used) {
      return absl::OkStatus();
    }
    MR_ASSIGN_OR_RETURN(projection_, source_.Project(used));
    source_.NoteUse(*projection_);
    Release();
    std::fill(views_.begin(), views_.end(), absl::Span<const uint8_t>());
    return absl::OkStatus();
  }

  void Release() override {
    const RowGroupCache::Lease::Pin pin(lease_);
    Forget();
  }

 private:
  void Forget() {
    shard_ = -1;
    shard_begin_ = shard_end_ = 0;
    lease_.value = nullptr;
  }

  // Points views_ to the fields of the sample.
  absl::Status Find(const EncodedSample& sample) {
    const Shard& shard = source_.shard(sample.shard);
    for (size_t i = 0; i < shard.partitions.size(); ++i) {
      const int64_t& value = shard.partitions[i];
      views_[shard.columns.size() + i] = {
          reinterpret_cast<const uint8_t*>(&value), sizeof(value)};
    }
    if (projection_->fields.empty()) return absl::OkStatus();
    if (lease_.value == nullptr || sample.shard != shard_ ||
        sample.row < slice_begin_ || sample.row >= slice_end_) {
      MR_RETURN_IF_ERROR(MoveTo(sample));
    }
    MR_RETURN_IF_ERROR(
        static_cast<const RowGroup&>(*lease_.value)
            .Row(sample.row - slice_begin_, absl::MakeSpan(views_)));
    return source_.check().Check(views_, projection_->fields);
  }

  absl::Status MoveTo(const EncodedSample& sample) {
    const Shard& shard = source_.shard(sample.shard);
    const std::vector<int64_t>& starts = shard.file->group_starts();
    const int group =
        static_cast<int>(
            std::upper_bound(starts.begin(), starts.end(), sample.row) -
            starts.begin()) -
        1;
    Forget();  // a reader that waits for room holds none
    int64_t begin = 0, end = 0;
    MR_ASSIGN_OR_RETURN(lease_.value,
                        source_.Load(*projection_, sample.shard, group,
                                     sample.row - starts[group], &begin, &end));
    shard_ = sample.shard;
    shard_begin_ = source_.files().first_sample(shard_);
    shard_end_ = shard_begin_ + shard.file->rows();
    slice_begin_ = starts[group] + begin;
    slice_end_ = starts[group] + end;
    return absl::OkStatus();
  }

  const ParquetSource& source_;
  const int64_t samples_;
  std::shared_ptr<const Projection> projection_;  // null until it is needed
  RowGroupCache::Lease lease_;
  // The slice that lease_ holds or held; shard -1: there is none.
  int shard_ = -1;
  int64_t shard_begin_ = 0;  // logical indices
  int64_t shard_end_ = 0;
  int64_t slice_begin_ = 0;  // rows of the shard
  int64_t slice_end_ = 0;
  std::vector<absl::Span<const uint8_t>> views_;
};

absl::StatusOr<std::unique_ptr<RecordReader>> ParquetSource::NewReader() const {
  return std::make_unique<ParquetReader>(*this);
}

// Returns the source if the cache has room for at least one of its fields.
absl::StatusOr<std::unique_ptr<RecordSource>> MakeSource(
    DatasetInfo info, std::vector<Shard> shards, SampleCheck check,
    const OpenSourceOptions& options, Reservations footers) {
  for (Shard& shard : shards) {
    for (const ColumnPlan& column : shard.columns) {
      MR_ASSIGN_OR_RETURN(std::vector<ChunkCost> costs,
                          shard.file->CostsOf(column));
      shard.costs.push_back(std::move(costs));
    }
  }
  ByteBudget::Reservation reserved;
  MR_ASSIGN_OR_RETURN(
      const uint64_t cache_bytes,
      ReserveCache(shards.front().file->path(), options, &reserved));
  const std::vector<ColumnPlan> columns = shards.front().columns;
  const std::string path = shards.front().file->path();
  auto source = std::make_unique<ParquetSource>(
      std::move(info), std::move(shards), std::move(check), cache_bytes,
      options, std::move(reserved), std::move(footers));
  bool any = false;
  absl::Status refused;
  for (size_t i = 0; i < columns.size(); ++i) {
    std::vector<bool> alone(columns.size());
    alone[i] = true;
    if (absl::Status status = source->Project(alone, /*warn=*/false).status();
        status.ok()) {
      any = true;
    } else {
      refused.Update(status);
    }
  }
  if (!any) {
    const absl::Status none = absl::ResourceExhaustedError(absl::StrCat(
        "the server cannot serve any of its columns: ", refused.message()));
    // On a server, the configuration sets the cache size, so this is a usage
    // error.
    return options.cache_budget == nullptr ? none : UsageError(none);
  }
  if (!refused.ok()) {
    MR_LOG(WARNING) << "the server cannot serve all fields: "
                    << refused.message();
  }
  return source;
}

absl::StatusOr<Shard> PlanPackedShard(std::shared_ptr<const ParquetFile> file,
                                      const Schema& schema) {
  Shard shard{.file = std::move(file)};
  for (const Field& field : schema.fields()) {
    ColumnPlan plan{.name = field.name(),
                    .form = PackedForm(field),
                    .dtype = field.dtype()};
    MR_ASSIGN_OR_RETURN(plan.leaf, shard.file->Leaf(plan.name, plan.form));
    shard.columns.push_back(std::move(plan));
  }
  return shard;
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenPacked(
    const Files& files, const OpenSourceOptions& options,
    Reservations footers) {
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
  return MakeSource(std::move(info), std::move(shards), std::move(check),
                    options, std::move(footers));
}

// Sets the fields and columns of a foreign file, and the columns that are left
// out.
absl::StatusOr<Shard> PlanForeignShard(
    const std::shared_ptr<const ParquetFile>& file, DatasetInfo* info) {
  std::map<std::string, ClassLabelFeature> labels;
  if (!file->features_json().empty()) {
    auto parsed = ParseClassLabels(file->features_json());
    if (parsed.ok()) {
      labels = *std::move(parsed);
    } else {
      MR_LOG(WARNING) << file->path() << ": the `huggingface` metadata is not "
                      << "JSON, so the class names are not known";
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
      AddLeftOut(column->name(),
                 uses[column->name()] > 1 ? WhySharedName(uses[column->name()])
                                          : WhyLeftOut(*column),
                 info);
      continue;
    }
    plan.dtype = field.dtype();
    MR_ASSIGN_OR_RETURN(plan.leaf, file->Leaf(plan.name, plan.form));
    shard.columns.push_back(std::move(plan));
    *info->mutable_schema()->add_fields() = std::move(field);
  }
  return shard;
}

// The names of all columns of the files.
std::set<std::string> ColumnNames(const Files& files) {
  std::set<std::string> names;
  for (const auto& file : files) {
    for (const auto& column : file->schema().fields()) {
      names.insert(column->name());
    }
  }
  return names;
}

// "year=2020/part-0.parquet"
std::string NameBelow(absl::string_view base, absl::string_view path) {
  if (absl::ConsumePrefix(&path, base)) absl::ConsumePrefix(&path, "/");
  return CleanText(path, kMaxShardNameBytes);
}

// Adds the fields that the names of folders give, and them to the fingerprint.
absl::Status AddPartitions(const Files& files, const ShardPaths& paths,
                           DatasetInfo* info, std::vector<Shard>* shards) {
  MR_ASSIGN_OR_RETURN(Partitions partitions,
                      ReadPartitions(paths, ColumnNames(files)));
  if (partitions.fields.empty()) return absl::OkStatus();
  ContentSum sum;
  for (size_t i = 0; i < shards->size(); ++i) {
    std::vector<int64_t>& values = partitions.values[i];
    const absl::Span<const uint8_t> bytes(
        reinterpret_cast<const uint8_t*>(values.data()),
        values.size() * sizeof(int64_t));
    sum.Add(static_cast<int64_t>(i), {&bytes, 1});
    (*shards)[i].partitions = std::move(values);
    // Files of different folders have one name.
    info->mutable_shards(static_cast<int>(i))
        ->set_name(NameBelow(paths.base, paths.files[i]));
  }
  for (Field& field : partitions.fields) {
    *info->mutable_schema()->add_fields() = std::move(field);
  }
  const std::string text = absl::StrCat(
      "millrace parquet folders 1", info->fingerprint(),
      DatasetFingerprint(info->samples(), info->schema(), sum.value()));
  info->set_fingerprint(HashToHex(
      HashBytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()})));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenForeign(
    const Files& files, const ShardPaths& paths,
    const OpenSourceOptions& options, Reservations footers) {
  if (!paths.one_file && !paths.by_braces) {
    MR_RETURN_IF_ERROR(CheckNumberedNames(paths.files, ".parquet"));
  }
  DatasetInfo info;
  info.set_format("parquet");
  std::vector<Shard> shards;
  for (const auto& file : files) {
    DatasetInfo of_file;
    MR_ASSIGN_OR_RETURN(Shard shard, PlanForeignShard(file, &of_file));
    MR_RETURN_IF_ERROR(AppendForeignFile(
        {.path = file->path(), .rows = file->rows(), .bytes = file->bytes()},
        &of_file, &info));
    shards.push_back(std::move(shard));
  }
  MR_RETURN_IF_ERROR(CheckHasRows(files.front()->path(), info));
  std::vector<ForeignShard> hashed;
  for (const Shard& shard : shards) {
    hashed.push_back({.file = shard.file, .columns = shard.columns});
  }
  MR_ASSIGN_OR_RETURN(*info.mutable_fingerprint(), ForeignFingerprint(hashed));
  SetImagePresets(&info);
  MR_RETURN_IF_ERROR(AddPartitions(files, paths, &info, &shards));
  MR_ASSIGN_OR_RETURN(SampleCheck check, SampleCheck::Create(info.schema()));
  return MakeSource(std::move(info), std::move(shards), std::move(check),
                    options, std::move(footers));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenParquetSource(
    const ShardPaths& shards, const OpenSourceOptions& options) {
  FooterRoom room(options);
  Files files;
  for (const std::string& path : shards.files) {
    auto file =
        ParquetFile::Open(path, [&room](uint64_t bytes, uint64_t chunks) {
          return room.Admit(bytes, chunks);
        });
    if (room.full()) return room.Refusal(shards.files);
    MR_RETURN_IF_ERROR(file.status());
    files.push_back(*std::move(file));
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
  return packed ? OpenPacked(files, options, room.Take())
                : OpenForeign(files, shards, options, room.Take());
}

}  // namespace millrace::storage
