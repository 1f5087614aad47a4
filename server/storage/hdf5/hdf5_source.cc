#include "server/storage/hdf5/hdf5_source.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/first_of.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/extents/record_splitter.h"
#include "server/storage/file_faults.h"
#include "server/storage/file_room.h"
#include "server/storage/hdf5/hdf5_files.h"
#include "server/storage/hdf5/reader_process.h"
#include "server/storage/hdf5/row_blocks.h"
#include "server/storage/objects/local_objects.h"
#include "server/storage/read_error.h"
#include "server/storage/read_memory.h"

namespace millrace::storage {
namespace {

class Hdf5Source final : public RecordSource {
 public:
  Hdf5Source(std::unique_ptr<ObjectReader> objects,
             std::unique_ptr<RowBlocks> blocks, Hdf5Files files,
             RecordSplitter splitter, ByteBudget::Reservation list,
             std::unique_ptr<ReadMemory> memory)
      : objects_(std::move(objects)),
        blocks_(std::move(blocks)),
        files_(std::move(files)),
        splitter_(std::move(splitter)),
        list_(std::move(list)),
        memory_(std::move(memory)) {}

  const DatasetInfo& info() const override { return files_.info; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  ReadWait read_wait() const override { return ReadWait::kRead; }
  // The number is not bounded, but readers wait for each other's memory.
  uint32_t max_concurrent_reads() const override { return UINT32_MAX; }
  uint64_t metadata_bytes() const override {
    return list_.bytes() + memory_->largest_bytes();
  }
  uint64_t unused_bytes() const override { return memory_->unused_bytes(); }

  // Rows that libhdf5 reads are not compared with the file's identity; those
  // that are read by offset are, each of them.
  absl::Status CheckFiles() const override {
    if (blocks_ == nullptr) return absl::OkStatus();
    for (const Hdf5File& file : files_.files) {
      const auto now = objects_->Stat(file.path);
      if (!now.ok() || !(*now == file.identity)) {
        return absl::UnavailableError(absl::StrCat(
            file.path,
            " was changed, replaced or removed while it was read; begin again "
            "when the file is complete"));
      }
    }
    return absl::OkStatus();
  }

  const Hdf5Files& files() const { return files_; }
  const RecordSplitter& splitter() const { return splitter_; }
  FileRoom& room() const { return memory_->room(); }
  // Null: all columns are read by offset.
  RowBlocks* blocks() const { return blocks_.get(); }

  absl::Status Load(int file, uint64_t offset, absl::Span<uint8_t> data) const {
    const Hdf5File& place = files_.files[file];
    absl::Status status =
        objects_->Read(place.path, place.identity, offset, data);
    if (absl::IsDataLoss(status)) {
      faults_.Add(file, std::string(status.message()));
    }
    return status;
  }

 private:
  const std::unique_ptr<ObjectReader> objects_;
  const std::unique_ptr<RowBlocks> blocks_;
  const Hdf5Files files_;
  const RecordSplitter splitter_;
  const ByteBudget::Reservation list_;  // of the places of chunks
  const std::unique_ptr<ReadMemory> memory_;
  mutable FileFaults faults_;
};

class Hdf5Reader final : public RecordReader {
 public:
  explicit Hdf5Reader(const Hdf5Source& source)
      : source_(source),
        which_(source.splitter().all()),
        fields_(which_.size()) {}

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    if (index < 0 || index >= source_.info().samples()) {
      return NoSuchSample(index, source_.info().samples());
    }
    const std::vector<Hdf5File>& files = source_.files().files;
    const auto next = std::upper_bound(
        files.begin(), files.end(), index,
        [](int64_t i, const Hdf5File& file) { return i < file.first_sample; });
    EncodedSample sample;
    sample.shard = static_cast<int32_t>(next - files.begin() - 1);
    sample.row = index - files[sample.shard].first_sample;
    if (source_.blocks() != nullptr) {
      absl::Status built = Build(sample);
      if (!built.ok()) return At(std::move(built), sample, index);
      return Use(own_, &sample, index, visit);
    }
    const absl::StatusOr<uint64_t> room = FindValues(sample);
    if (!room.ok()) return At(room.status(), sample, index);
    const FileRoom::Buffer buffer(source_.room(), *room);
    if (buffer.data() == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the system has no memory for the ", FormatByteSize(*room),
          " of a row of ", files[sample.shard].path));
    }
    const absl::StatusOr<size_t> bytes = LoadValues(sample, buffer.data());
    if (!bytes.ok()) return At(bytes.status(), sample, index);
    return Use({buffer.data(), *bytes}, &sample, index, visit);
  }

  absl::Status UseFields(const std::vector<bool>& used) override {
    if (used == used_) return absl::OkStatus();
    used_ = used;
    which_.clear();
    for (const int field : source_.splitter().all()) {
      if (used.empty() || used[field]) which_.push_back(field);
    }
    return absl::OkStatus();
  }

  void Release() override {
    own_.clear();
    own_.shrink_to_fit();
  }

 private:
  bool IsUsed(size_t column) const {
    const ColumnRule& rule = *source_.files().rule;
    return used_.empty() || used_[rule.columns()[column].field];
  }

  absl::Status Use(
      absl::Span<const uint8_t> record, EncodedSample* sample, int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) {
    absl::Status status =
        source_.splitter().Split(record, used_, which_, &fields_);
    if (!status.ok()) {
      return At(
          absl::Status(
              status.code(),
              absl::StrCat(source_.files().files[sample->shard].path, ": row ",
                           sample->row, " is damaged: ", status.message())),
          *sample, index);
    }
    sample->fields = fields_.all();
    return visit(*sample);
  }

  // Bytes of the sizes of varying columns, before the values.
  static size_t HeaderBytes(const Hdf5File& file) {
    size_t bytes = 0;
    for (const Hdf5Dataset& set : file.sets) {
      if (Varies(set)) bytes += sizeof(uint32_t);
    }
    return bytes;
  }

  // Sets places_ of a record whose values are read by offset. Returns the bytes
  // of the record.
  absl::StatusOr<uint64_t> FindValues(const EncodedSample& sample) {
    const Hdf5File& file = source_.files().files[sample.shard];
    places_.assign(file.sets.size(), {});
    uint64_t record = HeaderBytes(file);
    for (size_t i = 0; i < file.sets.size(); ++i) {
      const Hdf5Dataset& set = file.sets[i];
      if (!IsUsed(i)) {
        if (!Varies(set)) places_[i].bytes = RowBytes(set);
      } else {
        auto place = FindValue(set, static_cast<uint64_t>(sample.row),
                               file.identity.bytes,
                               [&](uint64_t offset, absl::Span<uint8_t> to) {
                                 return source_.Load(sample.shard, offset, to);
                               });
        if (!place.ok()) return Named(place.status(), file, set, sample.row);
        if (place->bytes > file.largest[i]) {
          // Only if the file has changed in a way that its times do not show.
          return Named(absl::DataLossError("the value is larger than before"),
                       file, set, sample.row);
        }
        places_[i] = *place;
      }
      record += places_[i].bytes;
    }
    return record;
  }

  static absl::Status Named(const absl::Status& status, const Hdf5File& file,
                            const Hdf5Dataset& set, int64_t row) {
    if (!absl::IsDataLoss(status) ||
        absl::StrContains(status.message(), file.path)) {
      return status;
    }
    return absl::DataLossError(absl::StrCat(file.path, ": row ", row,
                                            " of dataset '", set.name(),
                                            "': ", status.message()));
  }

  // Reads the values of places_ to a record at `out`. Returns its bytes.
  absl::StatusOr<size_t> LoadValues(const EncodedSample& sample, uint8_t* out) {
    const Hdf5File& file = source_.files().files[sample.shard];
    size_t sizes = 0;
    size_t at = HeaderBytes(file);
    for (size_t i = 0; i < file.sets.size(); ++i) {
      const Hdf5Dataset& set = file.sets[i];
      uint64_t bytes = places_[i].bytes;
      if (IsUsed(i) && bytes > 0) {
        MR_RETURN_IF_ERROR(
            source_.Load(sample.shard, places_[i].offset, {out + at, bytes}));
        bytes = WithoutPadding(set, {out + at, bytes}).size();
      }
      if (Varies(set)) {
        const auto size = static_cast<uint32_t>(bytes);
        std::memcpy(out + sizes, &size, sizeof(size));
        sizes += sizeof(size);
      }
      at += bytes;
    }
    return at;
  }

  // Any record, in own_.
  absl::Status Build(const EncodedSample& sample) {
    const Hdf5File& file = source_.files().files[sample.shard];
    size_t sizes = 0;
    own_.assign(HeaderBytes(file), 0);
    for (size_t i = 0; i < file.sets.size(); ++i) {
      const Hdf5Dataset& set = file.sets[i];
      const size_t at = own_.size();
      if (!IsUsed(i)) {
        own_.resize(at + (Varies(set) ? 0 : RowBytes(set)));
      } else {
        MR_RETURN_IF_ERROR(source_.blocks()->Read(
            file.path, file.numbers[i], static_cast<uint64_t>(sample.row),
            RowBlocks::Ahead::kBlock, [&](absl::Span<const uint8_t> value) {
              value = WithoutPadding(set, value);
              own_.insert(own_.end(), value.begin(), value.end());
            }));
      }
      if (!Varies(set)) continue;
      const uint64_t bytes = own_.size() - at;
      if (bytes > std::numeric_limits<uint32_t>::max()) {
        return absl::DataLossError(absl::StrCat(
            file.path, ": row ", sample.row, " of dataset '",
            source_.files().table.columns[i].path, "' has 4 GiB or more"));
      }
      const auto size = static_cast<uint32_t>(bytes);
      std::memcpy(own_.data() + sizes, &size, sizeof(size));
      sizes += sizeof(size);
    }
    return absl::OkStatus();
  }

  absl::Status At(absl::Status status, const EncodedSample& sample,
                  int64_t index) const {
    return AtSample(std::move(status),
                    source_.info().shards(sample.shard).name(), sample.row,
                    index);
  }

  const Hdf5Source& source_;
  std::vector<bool> used_;  // empty: all
  std::vector<int> which_;
  RecordFields fields_;
  std::vector<ValuePlace> places_;  // of columns; of a record by offset
  std::vector<uint8_t> own_;        // a record of blocks
};

absl::StatusOr<std::unique_ptr<RecordReader>> Hdf5Source::NewReader() const {
  return std::make_unique<Hdf5Reader>(*this);
}

// The columns that are not readable by offset, a sentence each.
std::vector<std::string> PackedColumns(const Hdf5Files& files) {
  std::vector<std::string> reasons;
  for (size_t i = 0; i < files.table.columns.size(); ++i) {
    std::string why = WhyPacked(files, i);
    if (!why.empty()) reasons.push_back(std::move(why));
  }
  return reasons;
}

absl::Status RefusePacked(const ExtentUri& uri,
                          const std::vector<std::string>& reasons) {
  return UsageError(absl::FailedPreconditionError(absl::StrCat(
      uri.ToString(), " cannot be served as it is: ",
      FirstOf(reasons, "; ", static_cast<int64_t>(reasons.size())),
      ". Pack it: millrace-data pack --input=", uri.ShellArgument(),
      " --output=lmdb:PATH; or choose other datasets with ?fields=A,B")));
}

void LogLeftOut(const ExtentUri& uri, const DatasetInfo& info) {
  std::string text;
  for (const LeftOutColumn& column : info.left_out()) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "'", column.name(), "' (",
                    column.reason(), ")");
  }
  if (text.empty()) return;
  MR_LOG(INFO) << uri.ToString() << ": datasets left out: " << text;
}

uint64_t RecordBytes(const Hdf5Files& files) {
  uint64_t largest = 0;
  for (const Hdf5File& file : files.files) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < file.sets.size(); ++i) {
      bytes += file.largest[i] + (Varies(file.sets[i]) ? sizeof(uint32_t) : 0);
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

// Memory of the places of chunks: an estimate.
uint64_t ListBytes(const Hdf5Files& files) {
  uint64_t bytes = 0;
  for (const Hdf5File& file : files.files) {
    bytes += 1024;
    for (const Hdf5Dataset& set : file.sets) {
      bytes += 256 + sizeof(uint64_t) *
                         static_cast<uint64_t>(set.chunk_offsets_size());
    }
  }
  return bytes;
}

absl::Status ReserveList(const ExtentUri& uri, uint64_t bytes,
                         const OpenSourceOptions& options,
                         ByteBudget::Reservation* list) {
  ByteBudget* const budget = options.metadata_budget;
  if (budget == nullptr || budget->TryReserve(bytes, list)) {
    return absl::OkStatus();
  }
  const std::string advice =
      options.metadata_advice ? options.metadata_advice(bytes, nullptr) : "";
  return UsageError(absl::ResourceExhaustedError(absl::StrCat(
      "the places of the chunks of ", uri.ToString(), " need ",
      FormatExactByteSize(bytes), " of memory, and the memory budget has ",
      FormatExactByteSize(budget->capacity() - budget->used()), " for them",
      advice.empty() ? "" : ": ", advice)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenHdf5(
    absl::string_view rest, const OpenSourceOptions& options, Hdf5Use use) {
  MR_ASSIGN_OR_RETURN(const ExtentUri uri,
                      UsageError(ExtentUri::Parse(kHdf5Scheme, rest)));
  auto objects = std::make_unique<LocalObjects>();
  auto blocks = std::make_unique<RowBlocks>();
  MR_ASSIGN_OR_RETURN(Hdf5Files files, DescribeHdf5(uri, *objects, *blocks));
  const std::vector<std::string> packed = PackedColumns(files);
  if (packed.empty()) {
    blocks.reset();
  } else if (use == Hdf5Use::kAtRandom) {
    return RefusePacked(uri, packed);
  }
  if (use == Hdf5Use::kAtRandom) LogLeftOut(uri, files.info);
  const uint64_t record_bytes = packed.empty() ? RecordBytes(files) : 0;
  ByteBudget::Reservation list;
  MR_RETURN_IF_ERROR(ReserveList(uri, ListBytes(files), options, &list));
  MR_ASSIGN_OR_RETURN(RecordSplitter splitter,
                      RecordSplitter::Create(*files.rule, uri.label_offset,
                                             files.info.schema()));
  MR_ASSIGN_OR_RETURN(
      std::unique_ptr<ReadMemory> memory,
      ReadMemory::Reserve(
          {.largest_bytes = record_bytes,
           .largest = absl::StrCat(
               "a row of ", uri.ToString(), " has ",
               FormatExactByteSize(record_bytes),
               ", and the server holds a row as a whole while it reads it"),
           .largest_of = "the largest record of a dataset",
           .remedy = "",
           .one_at_a_time = absl::StrCat(
               uri.ToString(),
               ": its rows are read one at a time, because other datasets have "
               "the memory for reading; raise --memory_budget"),
           .dataset = &files.info},
          options, &list));
  return std::make_unique<Hdf5Source>(std::move(objects), std::move(blocks),
                                      std::move(files), std::move(splitter),
                                      std::move(list), std::move(memory));
}

}  // namespace millrace::storage
