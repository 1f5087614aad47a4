#include "server/storage/foreign_lmdb/foreign_source.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/content_record.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/extents/field_rule.h"
#include "server/storage/foreign_lmdb/environment.h"
#include "server/storage/foreign_lmdb/environment_paths.h"
#include "server/storage/foreign_lmdb/foreign_index.h"
#include "server/storage/foreign_lmdb/foreign_options.h"
#include "server/storage/foreign_lmdb/sample_keys.h"
#include "server/storage/foreign_lmdb/value_layout.h"
#include "server/storage/lmdb/lmdb_cursor.h"
#include "server/storage/lmdb/lmdb_file.h"
#include "server/storage/lmdb/lmdb_tree.h"
#include "server/storage/lmdb/metadata_record.h"
#include "server/storage/objects/local_objects.h"
#include "server/storage/read_error.h"
#include "server/storage/sample_check.h"
#include "server/storage/shard_files.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kScheme = "lmdb";

class ForeignSource final : public RecordSource {
 public:
  ForeignSource(DatasetInfo info, ForeignIndex::Environments environments,
                ForeignOptions options,
                std::unique_ptr<const ForeignIndex> index, int64_t label_offset,
                SampleCheck check)
      : info_(std::move(info)),
        environments_(std::move(environments)),
        options_(std::move(options)),
        index_(std::move(index)),
        label_offset_(label_offset),
        check_(std::move(check)),
        shards_(info_, [this](int shard) {
          return environments_[shard]->file().CheckUnchanged();
        }) {}

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  ReadWait read_wait() const override { return ReadWait::kPages; }
  absl::Status CheckFiles() const override { return shards_.CheckAll(); }
  absl::Status CheckFilesOf(absl::Span<const int64_t> samples) const override {
    return shards_.CheckThoseOf(samples);
  }
  uint64_t metadata_bytes() const override { return index_->memory_bytes(); }

  const Environment& environment(int shard) const {
    return *environments_[shard];
  }
  const ForeignIndex& index() const { return *index_; }
  const ShardFiles& shards() const { return shards_; }
  const SampleCheck& check() const { return check_; }
  int64_t label_offset() const { return label_offset_; }

  // Key of a row, by a scan: for errors. Empty: it is not found any more.
  std::string KeyOf(int shard, int64_t row) const;

 private:
  const DatasetInfo info_;
  const ForeignIndex::Environments environments_;
  const ForeignOptions options_;
  const std::unique_ptr<const ForeignIndex> index_;
  const int64_t label_offset_;
  const SampleCheck check_;
  const ShardFiles shards_;  // environments_
};

std::string ForeignSource::KeyOf(int shard, int64_t row) const {
  SampleKeys keys(environment(shard), options_,
                  index_->layout().kind() == ValueLayout::Kind::kText);
  SampleKeys::Sample sample;
  for (;; --row) {
    const absl::StatusOr<bool> more = keys.Next(&sample);
    if (!more.ok() || !*more) return "";
    if (row == 0) return std::string(sample.key);
  }
}

class ForeignReader final : public RecordReader {
 public:
  explicit ForeignReader(const ForeignSource& source)
      : source_(source),
        samples_(source.info().samples()),
        fields_(static_cast<size_t>(source.check().fields())) {}

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    if (index < 0 || index >= samples_) return NoSuchSample(index, samples_);
    EncodedSample sample;
    sample.shard = source_.shards().ShardOf(index);
    sample.row = index - source_.shards().first_sample(sample.shard);
    absl::Status status = Load(index, sample.shard);
    const bool loaded = status.ok();
    if (loaded) {
      sample.fields = fields_.all();
      status = visit(sample);
      if (status.ok()) return status;
    }
    // If the file has changed, the error is that change and not the sample.
    MR_RETURN_IF_ERROR(source_.shards().Check(sample.shard));
    if (loaded) return status;
    const std::string key = source_.KeyOf(sample.shard, sample.row);
    return AtSample(AtKey(status, source_.environment(sample.shard), key),
                    source_.info().shards(sample.shard).name(), sample.row,
                    index);
  }

  void Prefetch(int64_t index) override {
    if (index < 0 || index >= samples_) return;
    const LmdbFile& file =
        source_.environment(source_.shards().ShardOf(index)).file();
    absl::Span<const uint8_t> value;
    if (file.TryAt(source_.index().place(index), &value) ==
        LmdbTree::Result::kFound) {
      file.Touch(value);
    }
  }

 private:
  absl::Status Find(int shard, const LmdbPlace& place,
                    absl::Span<const uint8_t>* value) const {
    if (source_.environment(shard).file().TryAt(place, value) ==
        LmdbTree::Result::kFound) {
      return absl::OkStatus();
    }
    return absl::DataLossError(absl::StrCat(
        "the pages at byte ", place.offset,
        " do not hold its value; copy the file again, or write it again"));
  }

  // Sets fields_.
  absl::Status Load(int64_t index, int shard) {
    const ForeignIndex& places = source_.index();
    absl::Span<const uint8_t> value;
    MR_RETURN_IF_ERROR(Find(shard, places.place(index), &value));
    fields_.Clear();
    int64_t label = 0;
    MR_RETURN_IF_ERROR(places.layout().Split(value, &fields_, &label));
    if (places.layout().kind() == ValueLayout::Kind::kText) {
      MR_RETURN_IF_ERROR(Find(shard, places.text(index), &value));
      fields_.Set(1, value);
    }
    if (places.class_field() >= 0) {
      label_ = places.classes_from_keys() ? places.class_index(index)
                                          : label + source_.label_offset();
      fields_.Set(static_cast<size_t>(places.class_field()),
                  {reinterpret_cast<const uint8_t*>(&label_), sizeof(label_)});
    }
    return source_.check().Check(fields_.all());
  }

  const ForeignSource& source_;
  const int64_t samples_;
  RecordFields fields_;
  int64_t label_ = 0;  // of fields_
};

absl::StatusOr<std::unique_ptr<RecordReader>> ForeignSource::NewReader() const {
  return std::make_unique<ForeignReader>(*this);
}

// Who wrote the environment in a file.
enum class Writer {
  kPack,
  kCutOff,  // `millrace-data pack` that was interrupted
  kOther,
};

absl::StatusOr<Writer> WriterOf(const LmdbFile& file) {
  LmdbTree::Position position;
  const absl::StatusOr<absl::Span<const uint8_t>> found =
      file.Get(kMetadataKey, &position);
  if (found.ok()) return Writer::kPack;
  if (!absl::IsNotFound(found.status())) return found.status();
  LmdbCursor cursor(file.data(), file.header());
  LmdbCursor::Entry first;
  const LmdbCursor::Result result = cursor.Next(&first);
  // An empty one, too.
  const std::string row_0(sizeof(uint64_t), '\0');
  return result == LmdbCursor::Result::kEntry && first.key != row_0
             ? Writer::kOther
             : Writer::kCutOff;
}

// Whether the files are for this source; otherwise for that of packed ones.
absl::StatusOr<bool> AreForeign(const std::string& path,
                                const std::vector<std::string>& files,
                                bool options_given) {
  if (files.empty() && options_given) {
    return absl::NotFoundError(
        absl::StrCat("there is no LMDB environment at ", path,
                     ": it is neither a file, nor a folder with data.mdb or "
                     "with environments; check the path"));
  }
  if (files.empty()) return false;
  const bool in_folder = IsInEnvironmentFolder(files.front());
  const absl::StatusOr<std::unique_ptr<const LmdbFile>> file =
      LmdbFile::Open(files.front());
  if (!file.ok()) {
    // The source of packed files does not know folders with data.mdb.
    if (in_folder || options_given) return file.status();
    return false;
  }
  const absl::StatusOr<Writer> writer = WriterOf(**file);
  if (!writer.ok())
    return in_folder || options_given ? absl::StatusOr<bool>(writer.status())
                                      : false;
  if (*writer == Writer::kOther) return true;
  if (*writer == Writer::kCutOff) return in_folder || options_given;
  if (options_given) {
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        files.front(),
        " was written by `millrace-data pack`, and options are for "
        "environments of other programs: remove the part behind '?'")));
  }
  return false;
}

absl::StatusOr<ForeignIndex::Environments> OpenAll(
    const std::vector<std::string>& files, const std::string& database) {
  ForeignIndex::Environments environments;
  for (const std::string& path : files) {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<const Environment> environment,
                        Environment::Open(path, database));
    MR_ASSIGN_OR_RETURN(const Writer writer, WriterOf(environment->file()));
    if (writer == Writer::kPack) {
      return UsageError(absl::InvalidArgumentError(absl::StrCat(
          path, " was written by `millrace-data pack`, and ", files.front(),
          " by another program: open them as two datasets")));
    }
    environments.push_back(std::move(environment));
  }
  return environments;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenForeignLmdb(
    absl::string_view rest, const OpenSourceOptions& options) {
  ForeignLmdb opened;
  return OpenForeignLmdb(rest, options, &opened);
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenForeignLmdb(
    absl::string_view rest, const OpenSourceOptions& options,
    ForeignLmdb* opened) {
  if (rest.empty()) return nullptr;
  MR_ASSIGN_OR_RETURN(const ExtentUri uri,
                      UsageError(ExtentUri::Parse(kScheme, rest)));
  MR_ASSIGN_OR_RETURN(ForeignOptions parsed,
                      UsageError(ForeignOptions::Parse(uri)));
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                      FindEnvironments(uri.path));
  const bool options_given =
      rest.find('?') != rest.npos &&
      (!uri.options.empty() || uri.num_classes != 0 || uri.label_offset != 0 ||
       !uri.classes_file.empty());
  MR_ASSIGN_OR_RETURN(const bool foreign,
                      AreForeign(uri.path, files, options_given));
  if (!foreign) return nullptr;
  MR_ASSIGN_OR_RETURN(ForeignIndex::Environments environments,
                      OpenAll(files, parsed.database));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<const ForeignIndex> index,
                      ForeignIndex::Build(environments, parsed, uri, options));
  MR_ASSIGN_OR_RETURN(SampleCheck check,
                      SampleCheck::Create(index->info().schema()));
  DatasetInfo info = index->info();
  opened->uri = uri;
  opened->content.keys = info.fingerprint();
  LocalObjects objects;
  for (const auto& environment : environments) {
    MR_ASSIGN_OR_RETURN(opened->content.files.emplace_back(),
                        objects.Stat(environment->path()));
  }
  ContentRecord known = opened->content;
  if (FindContentSums(uri, options.cache_dir, &known)) {
    SetContentSums(known.sums, &info);
  }
  return std::make_unique<ForeignSource>(
      std::move(info), std::move(environments), std::move(parsed),
      std::move(index), uri.label_offset, std::move(check));
}

}  // namespace millrace::storage
