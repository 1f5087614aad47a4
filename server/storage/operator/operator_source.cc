#include "server/storage/operator/operator_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "server/operators/operator_result.h"
#include "server/storage/content_hash.h"
#include "server/storage/read_error.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {
namespace {

constexpr uint32_t kMaxFields = 1024;
constexpr int64_t kMaxClassNames = 1 << 20;

// An open dataset of the library; closed when its last owner is gone.
class Handle {
 public:
  explicit Handle(const millrace_source& source) : source_(source) {}
  ~Handle() {
    if (open_) source_.close(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  absl::Status Open(const std::string& path, const std::string& who,
                    millrace_dataset* dataset) {
    operators::OperatorResult result;
    result = source_.open(path.c_str(), dataset, &handle_, result.error());
    MR_RETURN_IF_ERROR(
        result.ToStatus(who, absl::StatusCode::kInvalidArgument));
    open_ = true;
    return absl::OkStatus();
  }

  void* get() const { return handle_; }

 private:
  const millrace_source source_;
  void* handle_ = nullptr;
  bool open_ = false;
};

class OperatorSource final : public RecordSource {
 public:
  OperatorSource(const millrace_source& functions, std::string who,
                 std::unique_ptr<Handle> handle, DatasetInfo info,
                 SampleCheck check)
      : functions_(functions),
        who_(std::move(who)),
        handle_(std::move(handle)),
        info_(std::move(info)),
        check_(std::move(check)) {}

  const DatasetInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader() const override;
  // The library may read from any storage.
  ReadWait read_wait() const override { return ReadWait::kRead; }

  const millrace_source& functions() const { return functions_; }
  const std::string& who() const { return who_; }
  const SampleCheck& check() const { return check_; }

 private:
  const millrace_source functions_;
  const std::string who_;  // "source csv 1.0", for messages
  const std::unique_ptr<Handle> handle_;
  const DatasetInfo info_;
  const SampleCheck check_;
};

class OperatorReader final : public RecordReader {
 public:
  OperatorReader(const OperatorSource& source, void* reader)
      : source_(source),
        reader_(reader),
        fields_(source.check().fields()),
        views_(source.check().fields()) {}
  ~OperatorReader() override { source_.functions().free_reader(reader_); }

  absl::Status Read(
      int64_t index,
      absl::FunctionRef<absl::Status(const EncodedSample&)> visit) override {
    const int64_t samples = source_.info().samples();
    if (index < 0 || index >= samples) return NoSuchSample(index, samples);
    if (absl::Status status = Load(index); !status.ok()) {
      return AtSample(std::move(status), source_.info().shards(0).name(), index,
                      index);
    }
    return visit({.fields = views_, .shard = 0, .row = index});
  }

 private:
  // Points views_ to the fields of the sample.
  absl::Status Load(int64_t index) {
    std::fill(fields_.begin(), fields_.end(), millrace_bytes{});
    operators::OperatorResult result;
    result = source_.functions().read(reader_, index, fields_.data(),
                                      result.error());
    MR_RETURN_IF_ERROR(
        result.ToStatus(source_.who(), absl::StatusCode::kDataLoss));
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].data == nullptr && fields_[i].size != 0) {
        return absl::InternalError(
            absl::StrCat(source_.who(), ": gives ", fields_[i].size,
                         " bytes at NULL for field ", i));
      }
      views_[i] = {fields_[i].data, fields_[i].size};
    }
    return source_.check().Check(views_);
  }

  const OperatorSource& source_;
  void* const reader_;
  std::vector<millrace_bytes> fields_;
  std::vector<absl::Span<const uint8_t>> views_;
};

absl::StatusOr<std::unique_ptr<RecordReader>> OperatorSource::NewReader()
    const {
  void* reader = nullptr;
  operators::OperatorResult result;
  result = functions_.new_reader(handle_->get(), &reader, result.error());
  MR_RETURN_IF_ERROR(result.ToStatus(who_, absl::StatusCode::kInternal));
  return std::make_unique<OperatorReader>(*this, reader);
}

// The numbers of the interface equal those of the schema.
static_assert(int{MILLRACE_FIELD_IMAGE} == int{v1::FIELD_KIND_ENCODED_IMAGE});
static_assert(int{MILLRACE_FIELD_TENSOR} == int{v1::FIELD_KIND_TENSOR});
static_assert(int{MILLRACE_FIELD_RAGGED} == int{v1::FIELD_KIND_RAGGED});

absl::Status ReadField(const millrace_field& from, Field* to) {
  if (from.name == nullptr || !IsUtf8(from.name)) {
    return absl::InvalidArgumentError(
        "a field has no name, or its name is not UTF-8");
  }
  to->set_name(from.name);
  if (!FieldKind_IsValid(from.kind) || !DType_IsValid(from.type.dtype) ||
      from.type.dims < 0 || from.type.dims > MILLRACE_MAX_DIMS) {
    return absl::InvalidArgumentError(
        absl::StrCat("field ", operators::Printable(from.name), " is of kind ",
                     from.kind, ", dtype ", from.type.dtype, " and has ",
                     from.type.dims, " dimensions"));
  }
  to->set_kind(static_cast<FieldKind>(from.kind));
  if (to->kind() != FIELD_KIND_ENCODED_IMAGE) {
    to->set_dtype(static_cast<DType>(from.type.dtype));
  }
  if (to->kind() == FIELD_KIND_TENSOR) {
    to->mutable_shape()->Add(from.type.shape, from.type.shape + from.type.dims);
  }
  to->set_num_classes(from.num_classes);
  if (from.class_names == nullptr) return absl::OkStatus();
  if (from.num_classes < 0 || from.num_classes > kMaxClassNames) {
    return absl::InvalidArgumentError(absl::StrCat(
        "field ", operators::Printable(from.name), " has ", from.num_classes,
        " class names; the maximum is ", kMaxClassNames));
  }
  for (int64_t i = 0; i < from.num_classes; ++i) {
    if (from.class_names[i] == nullptr || !IsUtf8(from.class_names[i])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "class ", i, " of field ", operators::Printable(from.name),
          " has no name, or its name is not UTF-8"));
    }
    to->add_class_names(from.class_names[i]);
  }
  return absl::OkStatus();
}

absl::Status ReadDescription(const millrace_dataset& from, DatasetInfo* info) {
  if (from.samples < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the dataset has ", from.samples, " samples"));
  }
  if (from.fields == nullptr || from.field_count < 1 ||
      from.field_count > kMaxFields) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the dataset lists ", from.fields == nullptr ? 0 : from.field_count,
        " fields; it must list 1 to ", kMaxFields));
  }
  if (from.fingerprint == nullptr || *from.fingerprint == '\0') {
    return absl::InvalidArgumentError(
        "the dataset has no fingerprint: set it to a hash of the content");
  }
  for (const char* preset : {from.train_preset, from.eval_preset}) {
    if (preset != nullptr && !IsUtf8(preset)) {
      return absl::InvalidArgumentError("a preset's name is not UTF-8");
    }
  }
  if (from.train_preset != nullptr) info->set_train_preset(from.train_preset);
  if (from.eval_preset != nullptr) info->set_eval_preset(from.eval_preset);
  info->set_samples(from.samples);
  for (uint32_t i = 0; i < from.field_count; ++i) {
    MR_RETURN_IF_ERROR(
        ReadField(from.fields[i], info->mutable_schema()->add_fields()));
  }
  return absl::OkStatus();
}

// Hash of the reader's identity and of its statement about the content.
std::string Fingerprint(const OperatorRef& reader,
                        absl::string_view fingerprint,
                        const DatasetInfo& info) {
  std::string text;
  for (absl::string_view part :
       {absl::string_view("millrace operator source 1"),
        absl::string_view(reader.name()), absl::string_view(reader.version()),
        absl::string_view(reader.library_hash()), fingerprint}) {
    absl::StrAppend(&text, part.size(), ":", part);
  }
  const Hash128 content =
      HashBytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return DatasetFingerprint(info.samples(), info.schema(), content);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenOperatorSource(
    const operators::Operators::Source& source, const std::string& path) {
  const std::string who =
      absl::StrCat("source ", source.ref.name(), " ", source.ref.version());
  auto handle = std::make_unique<Handle>(source.functions);
  millrace_dataset dataset = {.struct_size = sizeof(millrace_dataset)};
  MR_RETURN_IF_ERROR(handle->Open(path, who, &dataset));
  const auto wrong = [&who](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat(who, ": ", status.message(),
                                     "; this is a bug of the library"));
  };
  DatasetInfo info;
  if (absl::Status status = ReadDescription(dataset, &info); !status.ok()) {
    return wrong(status);
  }
  absl::StatusOr<SampleCheck> check = SampleCheck::Create(info.schema());
  if (!check.ok()) return wrong(check.status());
  info.set_format(source.ref.name());
  *info.mutable_reader() = source.ref;
  info.set_fingerprint(Fingerprint(source.ref, dataset.fingerprint, info));
  ShardInfo* shard = info.add_shards();
  shard->set_name(operators::Printable(FileName(path)));
  shard->set_samples(info.samples());
  return std::make_unique<OperatorSource>(source.functions, who,
                                          std::move(handle), std::move(info),
                                          *std::move(check));
}

}  // namespace millrace::storage
