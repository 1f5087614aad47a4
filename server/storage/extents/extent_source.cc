#include "server/storage/extents/extent_source.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/content_hash.h"
#include "server/storage/extents/extent_cache.h"
#include "server/storage/extents/record_splitter.h"
#include "server/storage/file_faults.h"
#include "server/storage/file_room.h"
#include "server/storage/image_presets.h"
#include "server/storage/read_error.h"
#include "server/storage/read_memory.h"
#include "server/storage/sample_files.h"
#include "server/storage/shard_set.h"
#include "server/storage/unpack/unpacked_objects.h"

namespace millrace::storage {
namespace {

// Of the objects and their versions, by which reads compare them.
std::string FilesIdentityOf(const ExtentIndex& index) {
  // An index of files has their versions in its columns.
  std::string text =
      index.has_files() ? absl::StrCat(index.checksum(), " ") : "";
  for (int i = 0; i < index.objects(); ++i) {
    const auto [name, identity, first, samples] = index.object(i);
    absl::StrAppend(&text, name.size(), ":", name, " ", identity.bytes, " ",
                    identity.modified_nanos, " ", identity.changed_nanos, " ",
                    identity.inode, " ", identity.tag.size(), ":", identity.tag,
                    " ");
  }
  return HashToHex(
      HashBytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
}

class ExtentSource final : public RecordSource, public SampleFiles {
 public:
  ExtentSource(DatasetInfo info, ExtentUri uri,
               const OpenSourceOptions& options,
               std::unique_ptr<ObjectReader> objects,
               std::unique_ptr<const ExtentIndex> index,
               std::unique_ptr<const FieldRule> rule, RecordSplitter splitter,
               ByteBudget::Reservation list, std::unique_ptr<ReadMemory> memory)
      : info_(std::move(info)),
        uri_(std::move(uri)),
        cache_dir_(options.cache_dir),
        keep_index_(options.keep_content_index &&
                    !index->head().content_sum().empty()),
        objects_(std::move(objects)),
        index_(std::move(index)),
        rule_(std::move(rule)),
        splitter_(std::move(splitter)),
        list_(std::move(list)),
        memory_(std::move(memory)),
        identity_(FilesIdentityOf(*index_)) {}

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  ReadWait read_wait() const override { return ReadWait::kRead; }
  // The number is not bounded, but readers wait for each other's memory.
  uint32_t max_concurrent_reads() const override { return UINT32_MAX; }
  uint64_t metadata_bytes() const override {
    return index_->memory_bytes() + memory_->largest_bytes();
  }
  uint64_t unused_bytes() const override { return memory_->unused_bytes(); }
  uint64_t BytesOf(int64_t i, const std::vector<bool>& used) const override;
  std::string FilesIdentity() const override { return identity_; }
  std::string index_file() const override { return index_->file(); }

  // Each read has compared its object, so that the index alone can have
  // changed. A job that begins after a change of an object fails at its
  // samples, with an error that names the object, instead of a search for
  // another server.
  absl::Status CheckFiles() const override { return index_->CheckUnchanged(); }

  // Of an index of files.
  const SampleFiles* sample_files() const override {
    return index_->has_files() ? this : nullptr;
  }
  std::string FileOf(int64_t index) const override {
    return std::string(index_->file_name(index));
  }

  const ExtentIndex& index() const { return *index_; }
  const RecordSplitter& splitter() const { return splitter_; }
  FileRoom& room() const { return memory_->room(); }

  // Reads the extent of sample `i` of object `object` to `data`.
  absl::Status Load(int64_t i, int object, const Extent& extent,
                    uint8_t* data) const {
    const ExtentIndex::Object place = index_->object(object);
    absl::Status status =
        objects_->Read(place.name, place.identity, extent.offset,
                       absl::MakeSpan(data, extent.bytes));
    if (absl::IsDataLoss(status)) {
      faults_.Add(object, std::string(status.message()));
    }
    return AtSample(std::move(status), info_.shards(object).name(),
                    i - place.first_sample, i);
  }

  // Reads the file of sample `i`, of `bytes` bytes, to `data`.
  absl::Status LoadFile(int64_t i, uint32_t bytes, uint8_t* data) const {
    absl::Status status =
        objects_->Read(index_->FilePath(i), index_->file_identity(i), 0,
                       absl::MakeSpan(data, bytes));
    if (absl::IsDataLoss(status)) {
      // If the map of the index has changed, the error is that change.
      MR_RETURN_IF_ERROR(index_->CheckUnchanged());
      if (faults_.Add(i, std::string(status.message())) && !keep_index_) {
        DropExtentIndex(*index_, uri_, cache_dir_);
      }
    }
    return AtSample(std::move(status), FileOf(i), 0, i);
  }

 private:
  const DatasetInfo info_;
  const ExtentUri uri_;
  const std::string cache_dir_;
  const bool keep_index_;  // also when a file turns out to have changed
  const std::unique_ptr<ObjectReader> objects_;
  const std::unique_ptr<const ExtentIndex> index_;
  const std::unique_ptr<const FieldRule> rule_;  // of splitter_
  const RecordSplitter splitter_;
  const ByteBudget::Reservation list_;  // of index_
  const std::unique_ptr<ReadMemory> memory_;
  const std::string identity_;  // of the objects
  mutable FileFaults faults_;
};

uint64_t ExtentSource::BytesOf(int64_t i, const std::vector<bool>& used) const {
  uint64_t bytes = 0;
  bool in_record = false;
  for (const int field : splitter_.all()) {
    if (!used.empty() && !used[field]) continue;
    const int64_t fixed = splitter_.check().fixed_bytes(field);
    if (index_->has_files()) {
      bytes +=
          field == 0 ? index_->extent(i).bytes : index_->value(field, i).size();
    } else if (fixed >= 0) {
      bytes += static_cast<uint64_t>(fixed);
    } else if (!index_->lengths(field).empty()) {
      bytes += index_->lengths(field)[i];
    } else if (const Field& varies = info_.schema().fields(field);
               varies.kind() == FIELD_KIND_RAGGED &&
               varies.dtype() != DTYPE_UINT8) {
      return 0;  // numbers may take less in the record
    } else {
      in_record = true;
    }
  }
  return bytes + (in_record ? index_->extent(i).bytes : 0);
}

class ExtentReader final : public RecordReader {
 public:
  explicit ExtentReader(const ExtentSource& source)
      : source_(source),
        which_(source.splitter().all()),
        fields_(which_.size()) {
    NoteUsed();
  }

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    const ExtentIndex& extents = source_.index();
    if (index < 0 || index >= extents.samples()) {
      return NoSuchSample(index, extents.samples());
    }
    if (extents.has_files()) return ReadFile(index, visit);
    const int object = extents.ObjectOf(index);
    EncodedSample sample;
    sample.shard = object;
    sample.row = index - extents.first_sample(object);
    if (indexed_) return ReadIndexed(index, &sample, visit);
    const Extent extent = extents.extent(index);
    if (extent.bytes > extents.largest_extent()) {
      // The mapped file has changed: the record may not fit into the room.
      MR_RETURN_IF_ERROR(extents.CheckUnchanged());
      return At(absl::DataLossError("the index is damaged"), sample, index);
    }
    // Before the object is opened: who waits for memory holds no descriptor.
    const FileRoom::Buffer buffer(source_.room(), extent.bytes);
    if (buffer.data() == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the system has no memory for the ", FormatByteSize(extent.bytes),
          " of a record of ", extents.object(object).name));
    }
    MR_RETURN_IF_ERROR(source_.Load(index, object, extent, buffer.data()));
    const absl::Span<const uint8_t> record(buffer.data(), extent.bytes);
    absl::Status status =
        source_.splitter().Split(record, used_, which_, &fields_);
    if (!status.ok()) {
      // If the map of the index has changed, the error is that change.
      MR_RETURN_IF_ERROR(extents.CheckUnchanged());
      return At(Named(status, record, object, extent), sample, index);
    }
    sample.fields = fields_.all();
    return visit(sample);
  }

  absl::Status UseFields(const std::vector<bool>& used) override {
    if (used == used_) return absl::OkStatus();
    used_ = used;
    which_.clear();
    for (const int field : source_.splitter().all()) {
      if (used.empty() || used[field]) which_.push_back(field);
    }
    NoteUsed();
    return absl::OkStatus();
  }

 private:
  // Whether the index has the values of all fields that are used.
  void NoteUsed() {
    indexed_ = true;
    for (const int field : which_) {
      indexed_ &= source_.index().has_values(field);
    }
  }

  absl::Status ReadFile(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) {
    const ExtentIndex& extents = source_.index();
    fields_.Clear();
    std::optional<FileRoom::Buffer> file;
    for (const int field : which_) {
      if (field != 0) {
        fields_.Set(field, extents.value(field, index));
        continue;
      }
      const uint32_t bytes = extents.extent(index).bytes;
      if (bytes > extents.largest_extent()) {
        // The mapped file has changed: the file may not fit into the room.
        MR_RETURN_IF_ERROR(extents.CheckUnchanged());
        return AtFile(absl::DataLossError("the index is damaged"), index);
      }
      // Before the file is opened: who waits for memory holds no descriptor.
      file.emplace(source_.room(), bytes);
      if (file->data() == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the system has no memory for the ",
                         FormatByteSize(bytes), " of ", source_.FileOf(index)));
      }
      MR_RETURN_IF_ERROR(source_.LoadFile(index, bytes, file->data()));
      fields_.Set(0, {file->data(), bytes});
    }
    absl::Status status =
        source_.splitter().check().Check(fields_.all(), which_);
    if (!status.ok()) {
      MR_RETURN_IF_ERROR(extents.CheckUnchanged());
      return AtFile(std::move(status), index);
    }
    return visit({.fields = fields_.all(), .shard = 0, .row = index});
  }

  absl::Status AtFile(absl::Status status, int64_t index) const {
    return AtSample(std::move(status), source_.FileOf(index), 0, index);
  }

  absl::Status ReadIndexed(
      int64_t index, EncodedSample* sample,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) {
    fields_.Clear();
    for (const int field : which_) {
      fields_.Set(field, source_.index().value(field, index));
    }
    absl::Status status =
        source_.splitter().check().Check(fields_.all(), which_);
    if (!status.ok()) return At(std::move(status), *sample, index);
    sample->fields = fields_.all();
    return visit(*sample);
  }

  absl::Status At(absl::Status status, const EncodedSample& sample,
                  int64_t index) const {
    return AtSample(std::move(status),
                    source_.info().shards(sample.shard).name(), sample.row,
                    index);
  }

  absl::Status Named(const absl::Status& status,
                     absl::Span<const uint8_t> record, int object,
                     const Extent& extent) const {
    const std::string name = source_.splitter().rule().NameOf(record);
    return absl::Status(
        status.code(),
        absl::StrCat(source_.index().object(object).name, ": the record ", name,
                     name.empty() ? "" : " ", "at byte ", extent.offset,
                     " is damaged: ", status.message()));
  }

  const ExtentSource& source_;
  std::vector<bool> used_;  // empty: all
  std::vector<int> which_;
  bool indexed_ = false;
  RecordFields fields_;
};

absl::StatusOr<std::unique_ptr<RecordReader>> ExtentSource::NewReader() const {
  return std::make_unique<ExtentReader>(*this);
}

// The fingerprint without the content: never equal to one with it.
std::string ListedFingerprint(const DatasetInfo& info, Hash128 listing) {
  const std::string text =
      absl::StrCat("millrace listed extents 1",
                   DatasetFingerprint(info.samples(), info.schema(), listing));
  return HashToHex(
      HashBytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
}

// How records are read.
ReadUse UseOf(const ExtentIndex& index, const ExtentUri& uri,
              const DatasetInfo& info) {
  if (index.has_files()) {
    return {.largest_bytes = index.largest_extent(),
            .largest = absl::StrCat(
                "the largest file of ", uri.ToString(), " has ",
                FormatExactByteSize(index.largest_extent()),
                ", and the server holds a file as a whole while it reads it"),
            .largest_of = "the largest file of a table",
            .remedy = "pack the table, or remove the file",
            .one_at_a_time = absl::StrCat(
                uri.ToString(),
                ": its files are read one at a time, because other datasets "
                "have the memory for reading; raise --memory_budget, or pack "
                "the table"),
            .dataset = &info};
  }
  return {.largest_bytes = index.largest_extent(),
          .largest = absl::StrCat(
              "the largest record of ", uri.ToString(), " has ",
              FormatExactByteSize(index.largest_extent()),
              ", and the server holds a record as a whole while it reads it"),
          .largest_of = "the largest record of a dataset",
          .remedy = "",
          .one_at_a_time = absl::StrCat(
              uri.ToString(),
              ": its records are read one at a time, because other datasets "
              "have the memory for reading; raise --memory_budget"),
          .dataset = &info};
}

}  // namespace

absl::StatusOr<DatasetInfo> DescribeExtents(const ExtentIndex& index,
                                            const ExtentUri& uri,
                                            int class_field) {
  const ExtentIndexHead& head = index.head();
  DatasetInfo info;
  info.set_format(head.format());
  info.set_samples(index.samples());
  *info.mutable_schema() = head.schema();
  if (!index.has_files()) {
    MR_RETURN_IF_ERROR(uri.ApplyTo(class_field, info.mutable_schema()));
  }
  for (int i = 0; i < index.objects(); ++i) {
    const ExtentIndex::Object object = index.object(i);
    ShardInfo& shard = *info.add_shards();
    shard.set_name(ShardInfoName(object.name));
    shard.set_first_sample(object.first_sample);
    shard.set_samples(object.samples);
    shard.set_bytes(static_cast<int64_t>(object.identity.bytes));
    shard.set_content_sum(head.objects(i).content_sum());
  }
  if (index.has_files()) {
    // The table alone: what it depends on has no samples.
    info.mutable_shards()->DeleteSubrange(1, info.shards_size() - 1);
    info.mutable_shards(0)->set_bytes(
        static_cast<int64_t>(index.TotalFileBytes()));
  }
  SetImagePresets(&info);
  Hash128 sum;
  if (HashFromHex(head.content_sum(), &sum)) {
    info.set_fingerprint(
        DatasetFingerprint(info.samples(), info.schema(), sum));
  } else {
    HashFromHex(head.listing_sum(), &sum);
    info.set_fingerprint(ListedFingerprint(info, sum));
  }
  return info;
}

absl::StatusOr<std::unique_ptr<RecordSource>> NewExtentSource(
    const ExtentFormat& format, const ExtentUri& uri,
    std::unique_ptr<ObjectReader> objects,
    std::unique_ptr<const ExtentIndex> index, ByteBudget::Reservation room,
    const OpenSourceOptions& options) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<const FieldRule> rule,
                      format.RestoreRule(index->head().rule()));
  MR_ASSIGN_OR_RETURN(DatasetInfo info,
                      DescribeExtents(*index, uri, rule->class_field()));
  MR_ASSIGN_OR_RETURN(
      RecordSplitter splitter,
      RecordSplitter::Create(*rule, uri.label_offset, info.schema()));
  MR_ASSIGN_OR_RETURN(
      std::unique_ptr<ReadMemory> memory,
      ReadMemory::Reserve(UseOf(*index, uri, info), options, &room));
  return std::make_unique<ExtentSource>(
      std::move(info), uri, options, std::move(objects), std::move(index),
      std::move(rule), std::move(splitter), std::move(room), std::move(memory));
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenExtentSource(
    const ExtentFormat& format, absl::string_view rest,
    const OpenSourceOptions& options) {
  MR_ASSIGN_OR_RETURN(const ExtentUri uri,
                      UsageError(ExtentUri::Parse(format.scheme(), rest,
                                                  format.names_files())));
  auto objects = std::make_unique<UnpackedObjects>(options.cache_dir);
  ByteBudget::Reservation room;
  MR_ASSIGN_OR_RETURN(std::unique_ptr<const ExtentIndex> index,
                      FindExtentIndex(format, uri, *objects, options, &room));
  return NewExtentSource(format, uri, std::move(objects), std::move(index),
                         std::move(room), options);
}

}  // namespace millrace::storage
