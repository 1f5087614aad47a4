#include "server/storage/arrow/arrow_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/logging.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/arrow/arrow_paths.h"
#include "server/storage/arrow/batch_column.h"
#include "server/storage/columns/column_fingerprint.h"
#include "server/storage/columns/foreign_schema.h"
#include "server/storage/content_hash.h"
#include "server/storage/content_record.h"
#include "server/storage/image_presets.h"

namespace millrace::storage {
namespace {

// Max bytes of dataset_info.json that are read: one of 20,000 class names has
// 1 MB.
constexpr size_t kMaxInfoBytes = 16 << 20;

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// What `json` says; false: it has no features, or is not JSON.
bool ParseFeatures(const std::string& json, const std::string& path,
                   FeatureMaps* features) {
  if (json.empty()) return false;
  auto labels = ParseClassLabels(json);
  auto others = ParseColumnFeatures(json);
  if (!labels.ok() || !others.ok()) {
    MR_LOG(WARNING) << path << ": the metadata of Hugging Face datasets are "
                    << "not JSON, so the class names are not known";
    return false;
  }
  features->labels = *std::move(labels);
  features->others = *std::move(others);
  return true;
}

// The place of a column's buffers in the file.
class ColumnPlaces {
 public:
  ColumnPlaces(const IpcFile* file, const std::vector<ColumnLayout>* columns)
      : file_(file), columns_(columns) {}

  absl::StatusOr<ColumnBytes> Of(int batch, size_t column) {
    if (batch != batch_) {
      batch_ = -1;
      if (!file_->ReadHeader(batch, &header_)) return Damaged(batch);
      batch_ = batch;
    }
    const IpcMessage& message = header_.message;
    const ColumnLayout& layout = (*columns_)[column];
    const auto first = BufferIndex(message, layout.begin);
    const auto last = BufferIndex(message, layout.end);
    if (!first.has_value() || !last.has_value()) return Damaged(batch);
    uint64_t begin = UINT64_MAX;
    uint64_t end = 0;
    for (uint64_t i = *first; i < *last; ++i) {
      const auto buffer = message.BufferAt(i);
      if (!buffer.has_value()) return Damaged(batch);
      if (buffer->bytes == 0) continue;
      begin = std::min(begin, buffer->begin);
      end = std::max(end, buffer->begin + buffer->bytes);
    }
    if (begin >= end) return ColumnBytes();
    return ColumnBytes{
        .begin = static_cast<int64_t>(file_->body_begin(batch) + begin),
        .bytes = static_cast<int64_t>(end - begin)};
  }

 private:
  absl::Status Damaged(int batch) const {
    MR_RETURN_IF_ERROR(file_->CheckUnchanged());
    return file_->Damaged(
        absl::StrCat("is damaged: the header of record batch ", batch,
                     " does not fit its schema"));
  }

  const IpcFile* const file_;
  const std::vector<ColumnLayout>* const columns_;
  int batch_ = -1;  // that header_ is of
  IpcFile::Header header_;
};

}  // namespace

absl::Status ArrowDataset::OpenFiles(const ShardPaths& shards,
                                     const OpenSourceOptions& options) {
  ByteBudget* const budget = options.metadata_budget;
  uint64_t refused = 0;
  const auto admit = [&](uint64_t bytes) -> absl::Status {
    memory_bytes_ += bytes;
    if (budget == nullptr ||
        budget->TryReserve(bytes, &reserved_.emplace_back())) {
      return absl::OkStatus();
    }
    refused = bytes;
    return absl::ResourceExhaustedError("no room");
  };
  for (const std::string& path : shards.files) {
    auto file = IpcFile::Open(path, admit);
    if (refused > 0) {
      const uint64_t room = budget->capacity() - budget->used();
      reserved_.clear();
      const std::string advice =
          options.metadata_advice
              ? options.metadata_advice(memory_bytes_, nullptr)
              : "";
      return UsageError(absl::ResourceExhaustedError(absl::StrCat(
          path, ": its schema and the list of its record batches need ",
          FormatExactByteSize(refused),
          " of memory more, and the memory budget has ",
          FormatExactByteSize(room), " for it: ", advice,
          advice.empty() ? "" : ", or ",
          "write the files again with larger record batches")));
    }
    MR_RETURN_IF_ERROR(file.status());
    compressed_ |= (*file)->compressed();
    shards_.push_back({.file = *std::move(file)});
  }
  return absl::OkStatus();
}

absl::Status ArrowDataset::Describe(const std::string& dataset_info) {
  info_.set_format("arrow");
  FeatureMaps of_info;
  bool has_info = false;
  if (!dataset_info.empty()) {
    MR_ASSIGN_OR_RETURN(const std::string json,
                        ReadRegularFileStart(dataset_info, kMaxInfoBytes));
    has_info = ParseFeatures(json, dataset_info, &of_info);
    has_info &= !of_info.labels.empty() || !of_info.others.arrays.empty() ||
                !of_info.others.media.empty();
  }
  for (size_t i = 0; i < shards_.size(); ++i) {
    Shard& shard = shards_[i];
    DatasetInfo of_file;
    FeatureMaps of_schema;
    if (!has_info) {
      ParseFeatures(shard.file->features_json(), shard.file->path(),
                    &of_schema);
    }
    auto columns =
        std::make_shared<const std::vector<ColumnLayout>>(PlanColumns(
            shard.file->schema(), has_info ? of_info : of_schema, &of_file));
    // Files of one writer have equal schemas.
    const bool equal =
        i > 0 && shard.file->schema().Equals(shards_[0].file->schema(),
                                             /*check_metadata=*/false);
    shard.columns = equal ? shards_[0].columns : std::move(columns);
    MR_RETURN_IF_ERROR(
        AppendForeignFile({.path = shard.file->path(),
                           .rows = shard.file->rows(),
                           .bytes = static_cast<int64_t>(shard.file->bytes())},
                          &of_file, &info_));
  }
  SetImagePresets(&info_);
  return CheckHasRows(shards_.front().file->path(), info_);
}

// Images whose bytes are null in all of the first rows.
absl::Status ArrowDataset::CheckImages() const {
  for (const Shard& shard : shards_) {
    if (shard.file->batches() == 0) continue;
    IpcFile::Header header;
    if (!shard.file->ReadHeader(0, &header)) return absl::OkStatus();
    for (const ColumnLayout& layout : *shard.columns) {
      if (!layout.image) continue;
      const auto bytes = header.message.NodeAt(layout.levels.back().node);
      if (!bytes.has_value() || bytes->nulls < bytes->length) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          shard.file->path(), ": column '", layout.name,
          "' has no image bytes, at most paths of files: embed the images "
          "(datasets: save_to_disk does so), or serve the folder of files with "
          "imagefolder: or csv:"));
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status ArrowDataset::SetFingerprint() {
  std::vector<HashedFile> files;
  for (const Shard& shard : shards_) {
    const IpcFile* const file = shard.file.get();
    files.push_back(
        {.path = file->path(),
         .groups = file->batches(),
         .place =
             [places = std::make_shared<ColumnPlaces>(
                  file, shard.columns.get())](int64_t batch, size_t column) {
               return places->Of(static_cast<int>(batch), column);
             },
         .read =
             [file](uint64_t offset, absl::Span<uint8_t> buffer) {
               return file->Read(offset, buffer);
             },
         .check = [file] { return file->CheckUnchanged(); }});
  }
  ContentSum sum;
  MR_ASSIGN_OR_RETURN(
      const Hash128 columns,
      HashColumns(files, static_cast<size_t>(info_.schema().fields_size())));
  sum.Add(columns);
  for (int i = 0; i < shards(); ++i) {
    MR_RETURN_IF_ERROR(shards_[i].file->CheckUnchanged());
    const Hash128 headers = shards_[i].file->header_hash();
    const absl::Span<const uint8_t> part(
        reinterpret_cast<const uint8_t*>(&headers), sizeof(headers));
    sum.Add(-1 - i, {&part, 1});
  }
  // Never equal to a fingerprint of the content.
  info_.set_fingerprint(HashToHex(HashBytes(BytesOf(absl::StrCat(
      "millrace foreign arrow 1",
      DatasetFingerprint(info_.samples(), info_.schema(), sum.value()))))));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ArrowDataset>> ArrowDataset::Open(
    const ShardPaths& shards, const OpenSourceOptions& options) {
  std::unique_ptr<ArrowDataset> dataset(new ArrowDataset());
  if (!shards.one_file && !shards.by_braces) {
    MR_RETURN_IF_ERROR(CheckNumberedNames(shards.files, ".arrow"));
  }
  MR_RETURN_IF_ERROR(dataset->OpenFiles(shards, options));
  MR_RETURN_IF_ERROR(dataset->Describe(FindDatasetInfo(shards)));
  MR_RETURN_IF_ERROR(dataset->CheckImages());
  const auto key = MakeContentKey("arrow", shards.files, dataset->info_);
  const auto sums = key.has_value() ? FindContentRecord(*key, options.cache_dir)
                                    : std::nullopt;
  if (sums.has_value()) {
    SetContentSums(*sums, &dataset->info_);
  } else {
    MR_RETURN_IF_ERROR(dataset->SetFingerprint());
  }
  return dataset;
}

}  // namespace millrace::storage
