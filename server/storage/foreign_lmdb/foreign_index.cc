#include "server/storage/foreign_lmdb/foreign_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/count_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/content_hash.h"
#include "server/storage/foreign_lmdb/class_labels.h"
#include "server/storage/foreign_lmdb/sample_keys.h"
#include "server/storage/shard_set.h"

namespace millrace::storage {
namespace {

using LabelFrom = ForeignOptions::LabelFrom;

constexpr uint64_t kPlaceBytes = sizeof(uint64_t) + sizeof(uint32_t);
constexpr uint64_t kClassBytes = sizeof(int32_t);
// Memory for the text of a file of labels and its lines, in its bytes.
constexpr uint64_t kLabelsFileTimes = 4;

template <typename T>
absl::Span<const uint8_t> BytesOf(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof(value)};
}

absl::string_view Text(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::Span<const uint8_t> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Never equal to a fingerprint of the content.
std::string ForeignFingerprint(const DatasetInfo& info, Hash128 keys) {
  return HashToHex(HashBytes(BytesOf(absl::string_view(
      absl::StrCat("millrace foreign lmdb 1",
                   DatasetFingerprint(info.samples(), info.schema(), keys))))));
}

absl::Status Reserve(uint64_t bytes, const std::string& what,
                     const OpenSourceOptions& options,
                     ByteBudget::Reservation* room) {
  ByteBudget* const budget = options.metadata_budget;
  if (budget == nullptr || budget->TryReserve(bytes, room)) {
    return absl::OkStatus();
  }
  const std::string advice =
      options.metadata_advice ? options.metadata_advice(bytes, nullptr) : "";
  return UsageError(absl::ResourceExhaustedError(
      absl::StrCat(what, " needs ", FormatExactByteSize(bytes),
                   " of memory, and the memory budget has ",
                   FormatExactByteSize(budget->capacity() - budget->used()),
                   " for it", advice.empty() ? "" : ": ", advice)));
}

}  // namespace

class ForeignIndex::Builder {
 public:
  Builder(const Environments& environments, const ForeignOptions& options,
          const ExtentUri& uri, const OpenSourceOptions& source)
      : environments_(environments),
        options_(options),
        uri_(uri),
        source_(source),
        index_(new ForeignIndex()) {}

  absl::StatusOr<std::unique_ptr<const ForeignIndex>> Build() {
    text_ = options_.layout == "text" ||
            (options_.layout.empty() && HasTexts(*environments_.front()));
    if (text_ && keys_give_classes()) {
      return UsageError(absl::InvalidArgumentError(absl::StrCat(
          environments_.front()->path(),
          " has the keys num-samples and image-000000001, so its layout is "
          "text, which has no labels from keys: remove the option label, "
          "labels or label_key, or write layout=image if every key is that of "
          "an image")));
    }
    MR_RETURN_IF_ERROR(ReserveAll());
    if (options_.label_from != LabelFrom::kNone) {
      MR_ASSIGN_OR_RETURN(ClassLabels labels, UsageError(ClassLabels::Create(
                                                  options_, uri_, entries_)));
      labels_.emplace(std::move(labels));
    }
    for (const std::unique_ptr<const Environment>& environment :
         environments_) {
      MR_RETURN_IF_ERROR(Scan(*environment));
    }
    MR_RETURN_IF_ERROR(Describe());
    return std::unique_ptr<const ForeignIndex>(std::move(index_));
  }

 private:
  bool keys_give_classes() const {
    return options_.label_from != LabelFrom::kNone;
  }

  absl::Status ReserveAll() {
    for (const std::unique_ptr<const Environment>& environment :
         environments_) {
      entries_ += environment->entries();
    }
    // Of an environment with labels or texts under keys of their own, more than
    // is needed: they are entries, too.
    const uint64_t bytes =
        entries_ * (kPlaceBytes + (keys_give_classes() ? kClassBytes : 0));
    MR_RETURN_IF_ERROR(
        Reserve(bytes,
                absl::StrCat("the index of the ", CountText(entries_, "key"),
                             " in ", CountText(environments_.size(), "file"),
                             " of ", uri_.ToString()),
                source_, &index_->room_));
    index_->memory_bytes_ = bytes;
    index_->offsets_.reserve(entries_);
    index_->bytes_.reserve(entries_);
    if (options_.label_from != LabelFrom::kFile) return absl::OkStatus();
    struct stat info;
    // What is wrong with the file is told when it is read.
    if (stat(options_.labels_file.c_str(), &info) != 0) {
      return absl::OkStatus();
    }
    return Reserve(static_cast<uint64_t>(info.st_size) * kLabelsFileTimes,
                   options_.labels_file, source_, &labels_room_);
  }

  void Push(const LmdbPlace& place) {
    index_->offsets_.push_back(place.offset);
    index_->bytes_.push_back(place.bytes);
  }

  // The first record of the dataset.
  absl::Status SetLayout(const Environment& environment,
                         const SampleKeys::Sample& sample) {
    absl::Span<const uint8_t> value;
    if (environment.At(sample.place, &value) != LmdbTree::Result::kFound) {
      return environment.Damaged();
    }
    const absl::StatusOr<ValueLayout> layout =
        ValueLayout::Infer(text_ ? "text" : options_.layout, value);
    MR_RETURN_IF_ERROR(environment.file().CheckUnchanged());
    if (absl::IsInvalidArgument(layout.status())) {
      return UsageError(layout.status());
    }
    if (!layout.ok()) return AtKey(layout.status(), environment, sample.key);
    if (layout->is_datum() && keys_give_classes()) {
      return UsageError(absl::InvalidArgumentError(absl::StrCat(
          environment.path(), " holds ", layout->ToString(),
          ", which has labels: remove the option label, labels or label_key, "
          "or write layout=bytes")));
    }
    index_->layout_ = *layout;
    index_->places_ = text_ ? 2 : 1;
    return absl::OkStatus();
  }

  // Sets `*label` to the class index of a Datum.
  absl::Status ReadLabel(const Environment& environment,
                         const SampleKeys::Sample& sample, int64_t* label) {
    absl::Span<const uint8_t> value;
    if (environment.At(sample.place, &value) != LmdbTree::Result::kFound) {
      return environment.Damaged();
    }
    Datum datum;
    absl::Status status = index_->layout_->CheckDatum(value, &datum);
    *label = datum.label + uri_.label_offset;
    if (status.ok() && *label < 0) {
      status = absl::DataLossError(absl::StrCat(
          "the value has label ", datum.label, ", which gives class index ",
          *label, ": ",
          datum.label >= 0 ? "remove the option label_offset, or set it"
                           : "set the option label_offset",
          " so that class indices begin at 0"));
    }
    if (status.ok()) {
      largest_ = std::max(largest_, *label);
      return status;
    }
    MR_RETURN_IF_ERROR(environment.file().CheckUnchanged());
    return AtKey(status, environment, sample.key);
  }

  absl::Status Scan(const Environment& environment) {
    const int64_t first = samples_;
    SampleKeys keys(environment, options_, text_);
    SampleKeys::Sample sample;
    while (true) {
      MR_ASSIGN_OR_RETURN(const bool more, keys.Next(&sample));
      if (!more) break;
      if (!index_->layout_.has_value()) {
        MR_RETURN_IF_ERROR(SetLayout(environment, sample));
      }
      Push(sample.place);
      if (text_) Push(sample.text);
      int64_t label = 0;
      if (index_->layout_->is_datum()) {
        MR_RETURN_IF_ERROR(ReadLabel(environment, sample, &label));
      }
      if (labels_.has_value()) {
        // Copied, because the file may change while it is parsed.
        const std::string text(Text(sample.label));
        const absl::Status status = labels_->Add(sample.key, text);
        if (!status.ok()) return AtKey(status, environment, sample.key);
      }
      const uint64_t lengths[] = {sample.place.bytes, sample.text.bytes};
      const absl::Span<const uint8_t> parts[] = {
          BytesOf(sample.key), BytesOf(lengths), BytesOf(label), sample.label};
      sum_.Add(samples_++, parts);
    }
    MR_RETURN_IF_ERROR(environment.file().CheckUnchanged());
    if (samples_ == first) {
      return absl::DataLossError(absl::StrCat(
          environment.path(), " has no records: write it again, or remove it"));
    }
    ShardInfo& shard = *index_->info_.add_shards();
    shard.set_name(NameOf(environment.path()));
    shard.set_first_sample(first);
    shard.set_samples(samples_ - first);
    shard.set_bytes(static_cast<int64_t>(environment.file().bytes()));
    // Changes that keep keys and lengths count, too.
    const uint64_t transaction = environment.file().header().transaction;
    const absl::Span<const uint8_t> parts[] = {BytesOf(transaction)};
    sum_.Add(-1 - static_cast<int64_t>(index_->info_.shards_size()), parts);
    return absl::OkStatus();
  }

  // All files of folders have the name data.mdb; the folder's name tells.
  static std::string NameOf(const std::string& path) {
    const size_t end = path.rfind('/');
    if (end == path.npos || path.substr(end) != "/data.mdb") {
      return ShardInfoName(path);
    }
    return absl::StrCat(ShardInfoName(path.substr(0, end)), "/data.mdb");
  }

  absl::Status Describe() {
    DatasetInfo& info = index_->info_;
    info.set_format("lmdb");
    info.set_samples(samples_);
    Schema& schema = *info.mutable_schema();
    schema = index_->layout_->schema();
    if (index_->layout_->is_datum()) {
      index_->class_field_ = schema.fields_size() - 1;
      schema.mutable_fields(index_->class_field_)
          ->set_num_classes(largest_ + 1);
    }
    if (labels_.has_value()) {
      index_->class_field_ = schema.fields_size();
      Field* const label = schema.add_fields();
      label->set_name("label");
      label->set_kind(FIELD_KIND_TENSOR);
      label->set_dtype(DTYPE_INT64);
      MR_ASSIGN_OR_RETURN(index_->classes_, labels_->Finish(label));
      for (size_t i = 0; i < index_->classes_.size(); ++i) {
        const absl::Span<const uint8_t> parts[] = {
            BytesOf(index_->classes_[i])};
        sum_.Add(static_cast<int64_t>(i), parts);
      }
    }
    MR_RETURN_IF_ERROR(UsageError(uri_.ApplyTo(index_->class_field_, &schema)));
    const ValueLayout::Kind kind = index_->layout_->kind();
    if (index_->class_field_ >= 0 && (kind == ValueLayout::Kind::kImage ||
                                      kind == ValueLayout::Kind::kDatumImage)) {
      info.set_train_preset("imagenet_train");
      info.set_eval_preset("imagenet_eval");
    }
    info.set_fingerprint(ForeignFingerprint(info, sum_.value()));
    return absl::OkStatus();
  }

  const Environments& environments_;
  const ForeignOptions& options_;
  const ExtentUri& uri_;
  const OpenSourceOptions& source_;
  std::unique_ptr<ForeignIndex> index_;
  bool text_ = false;
  uint64_t entries_ = 0;
  int64_t samples_ = 0;
  int64_t largest_ = 0;  // class index of a Datum
  std::optional<ClassLabels> labels_;
  ByteBudget::Reservation labels_room_;
  ContentSum sum_;
};

absl::StatusOr<std::unique_ptr<const ForeignIndex>> ForeignIndex::Build(
    const Environments& environments, const ForeignOptions& options,
    const ExtentUri& uri, const OpenSourceOptions& source) {
  return Builder(environments, options, uri, source).Build();
}

}  // namespace millrace::storage
