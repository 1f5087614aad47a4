#include "server/storage/parquet/parquet_writer.h"

#include <arrow/array.h>
#include <arrow/array/builder_binary.h>
#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/table.h>
#include <arrow/util/key_value_metadata.h>
#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/file_error.h"
#include "common/status_macros.h"
#include "proto/dtype.h"
#include "server/storage/columns/arrow_error.h"
#include "server/storage/columns/column_map.h"
#include "server/storage/columns/features_json.h"
#include "server/storage/parquet/parquet_file.h"

namespace millrace::storage {
namespace {

constexpr size_t kSetIdDigits = 32;
constexpr uint64_t kMaxFieldBytes = INT32_MAX - (1 << 20);

// Collects the values of one column until a row group is complete.
class ColumnBuilder {
 public:
  ColumnBuilder(const Field& field, std::shared_ptr<arrow::DataType> type)
      : form_(PackedForm(field)),
        dtype_(field.dtype()),
        type_(std::move(type)) {}

  arrow::Status Append(absl::Span<const uint8_t> bytes,
                       absl::string_view origin) {
    ++rows_;
    const int32_t size = static_cast<int32_t>(bytes.size());
    switch (form_) {
      case ColumnForm::kImageStruct:
        ARROW_RETURN_NOT_OK(
            origin.empty() ? paths_.AppendNull()
                           : paths_.Append(origin.data(), static_cast<int32_t>(
                                                              origin.size())));
        return binary_.Append(bytes.data(), size);
      case ColumnForm::kBinary:
        return binary_.Append(bytes.data(), size);
      default:
        return fixed_.Append(bytes.data(), size);
    }
  }

  arrow::Result<std::shared_ptr<arrow::Array>> Finish() {
    const int64_t rows = std::exchange(rows_, 0);
    switch (form_) {
      case ColumnForm::kImageStruct: {
        ARROW_ASSIGN_OR_RAISE(auto bytes, binary_.Finish());
        ARROW_ASSIGN_OR_RAISE(auto paths, paths_.Finish());
        return std::make_shared<arrow::StructArray>(
            type_, rows, arrow::ArrayVector{bytes, paths});
      }
      case ColumnForm::kBinary:
        return binary_.Finish();
      default:
        break;
    }
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> values,
                          fixed_.Finish());
    const int64_t count = values->size() / ElementBytes(dtype_);
    const bool list = form_ == ColumnForm::kFixedList;
    const std::shared_ptr<arrow::DataType> number =
        list ? type_->field(0)->type() : type_;
    if (dtype_ == DTYPE_BOOL) {
      ARROW_ASSIGN_OR_RAISE(values, PackBits(*values));
    }
    std::shared_ptr<arrow::Array> array = arrow::MakeArray(
        arrow::ArrayData::Make(number, count, {nullptr, std::move(values)}));
    if (!list) return array;
    return std::make_shared<arrow::FixedSizeListArray>(type_, rows,
                                                       std::move(array));
  }

 private:
  static arrow::Result<std::shared_ptr<arrow::Buffer>> PackBits(
      const arrow::Buffer& bytes) {
    arrow::TypedBufferBuilder<bool> bits;
    ARROW_RETURN_NOT_OK(bits.Append(bytes.data(), bytes.size()));
    return bits.Finish();
  }

  const ColumnForm form_;
  const DType dtype_;
  const std::shared_ptr<arrow::DataType> type_;
  int64_t rows_ = 0;
  arrow::BinaryBuilder binary_;
  arrow::StringBuilder paths_;
  arrow::BufferBuilder fixed_;
};

std::shared_ptr<parquet::WriterProperties> Properties(const Schema& schema) {
  parquet::WriterProperties::Builder builder;
  builder.created_by(absl::StrCat(kParquetCreator, " version 1.0.0"));
  builder.compression(parquet::Compression::SNAPPY);
  for (const Field& field : schema.fields()) {
    switch (PackedForm(field)) {
      case ColumnForm::kImageStruct:
        // These columns are compressed already, and their values are rarely
        // equal.
        for (const char* child : {"bytes", "path"}) {
          const std::string path = absl::StrCat(field.name(), ".", child);
          builder.disable_dictionary(path);
          builder.disable_statistics(path);
        }
        builder.compression(absl::StrCat(field.name(), ".bytes"),
                            parquet::Compression::UNCOMPRESSED);
        break;
      case ColumnForm::kBinary:
        builder.disable_statistics(field.name());
        break;
      case ColumnForm::kFixedList: {
        const std::string path = absl::StrCat(field.name(), ".list.element");
        builder.disable_dictionary(path);
        builder.disable_statistics(path);
        break;
      }
      default:
        break;
    }
  }
  return builder.build();
}

absl::StatusOr<std::string> JsonOf(const ShardMetadata& metadata) {
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(metadata, &json).ok()) {
    return absl::InternalError("the metadata cannot be written as JSON");
  }
  return json;
}

// What stands in the footer of a finished file in the place of JsonOf(). It is
// longer than the metadata with any set_id and any place of the shard, which
// are not known when the footer is written, and it is no metadata: its set_id
// has no hexadecimal digits.
absl::StatusOr<std::string> OpenJson(ShardMetadata metadata) {
  metadata.set_set_id(std::string(kSetIdDigits, '-'));
  metadata.set_shard_index(INT32_MAX);
  metadata.set_shard_count(INT32_MAX);
  return JsonOf(metadata);
}

// The end of the file at `path` that holds the footer, and the place of the
// footer in the file.
absl::StatusOr<std::string> ReadFooter(int fd, const std::string& path,
                                       int64_t* place) {
  constexpr int64_t kTail = 8;  // u32 length of the footer, "PAR1"
  const auto damaged = [&path] {
    return absl::DataLossError(absl::StrCat(path, " is no Parquet file"));
  };
  struct stat info;
  uint32_t bytes;
  if (fstat(fd, &info) != 0) return FileError(errno, "read", path);
  if (info.st_size < kTail ||
      pread(fd, &bytes, sizeof(bytes), info.st_size - kTail) != sizeof(bytes) ||
      bytes > info.st_size - kTail) {
    return damaged();
  }
  *place = info.st_size - kTail - bytes;
  std::string footer(bytes, '\0');
  for (size_t got = 0; got < footer.size();) {
    const ssize_t more = pread(fd, footer.data() + got, footer.size() - got,
                               *place + static_cast<int64_t>(got));
    if (more < 0) return FileError(errno, "read", path);
    if (more == 0) return damaged();
    got += more;
  }
  return footer;
}

absl::Status SealFile(int fd, const std::string& path, const std::string& open,
                      const std::string& sealed) {
  int64_t place = 0;
  MR_ASSIGN_OR_RETURN(const std::string footer, ReadFooter(fd, path, &place));
  const size_t at = footer.find(open);
  if (at == footer.npos) {
    if (footer.find(sealed) != footer.npos) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(path, " has the metadata of another packing"));
  }
  // One call: a file that is written in part is damaged, and packed again.
  const ssize_t written = pwrite(fd, sealed.data(), sealed.size(),
                                 place + static_cast<int64_t>(at));
  if (written != static_cast<ssize_t>(sealed.size())) {
    return FileError(written < 0 ? errno : EIO, "write", path);
  }
  return absl::OkStatus();
}

class ParquetWriter final : public ShardWriter {
 public:
  explicit ParquetWriter(std::string path) : path_(std::move(path)) {}

  ~ParquetWriter() override {
    // The footer must not be written, because a file without footer is not a
    // shard. After the underlying stream is closed, the writer's own close
    // fails without an effect.
    if (file_ != nullptr) (void)file_->Close();
    try {
      writer_.reset();
    } catch (const std::exception&) {
    }
  }

  absl::Status Open(const Schema& schema) {
    arrow::FieldVector columns;
    for (const Field& field : schema.fields()) {
      MR_ASSIGN_OR_RETURN(auto type, ColumnTypeOf(field));
      columns.push_back(arrow::field(field.name(), type));
      builders_.push_back(std::make_unique<ColumnBuilder>(field, type));
    }
    schema_ = arrow::schema(
        std::move(columns),
        arrow::key_value_metadata({kFeaturesKey}, {FeaturesJson(schema)}));
    return Guard("create", [&]() -> arrow::Status {
      ARROW_ASSIGN_OR_RAISE(file_, arrow::io::FileOutputStream::Open(path_));
      ARROW_ASSIGN_OR_RAISE(
          writer_,
          parquet::arrow::FileWriter::Open(
              *schema_, arrow::default_memory_pool(), file_, Properties(schema),
              parquet::ArrowWriterProperties::Builder()
                  .store_schema()
                  ->build()));
      return arrow::Status::OK();
    });
  }

  absl::Status Append(absl::Span<const absl::Span<const uint8_t>> fields,
                      absl::string_view origin) override {
    uint64_t bytes = 0;
    for (const auto& field : fields) bytes += field.size();
    if (bytes > kMaxFieldBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample ", origin, " has ", FormatExactByteSize(bytes),
                       "; the maximum of a Parquet value is 2 GiB"));
    }
    if (pending_rows_ == kMaxRowGroupRows ||
        (pending_rows_ > 0 && pending_bytes_ + bytes > kMaxRowGroupBytes)) {
      MR_RETURN_IF_ERROR(FlushRowGroup());
    }
    MR_RETURN_IF_ERROR(Guard("write", [&] {
      for (size_t i = 0; i < fields.size(); ++i) {
        ARROW_RETURN_NOT_OK(builders_[i]->Append(fields[i], origin));
      }
      return arrow::Status::OK();
    }));
    ++pending_rows_;
    pending_bytes_ += bytes;
    return absl::OkStatus();
  }

  absl::Status Finish(const ShardMetadata& metadata) override {
    if (pending_rows_ > 0) MR_RETURN_IF_ERROR(FlushRowGroup());
    MR_ASSIGN_OR_RETURN(const std::string json, OpenJson(metadata));
    MR_RETURN_IF_ERROR(Guard("write", [&] {
      ARROW_RETURN_NOT_OK(writer_->AddKeyValueMetadata(
          arrow::key_value_metadata({kShardMetadataKey}, {json})));
      ARROW_RETURN_NOT_OK(writer_->Close());
      return file_->Close();
    }));
    return SyncToDisk(path_);
  }

 private:
  // Parquet's lower layer throws exceptions; this function converts them.
  absl::Status Guard(absl::string_view action,
                     absl::FunctionRef<arrow::Status()> body) {
    arrow::Status status;
    try {
      status = body();
    } catch (const std::exception& error) {
      status = arrow::Status::IOError(error.what());
    }
    return status.ok() ? absl::OkStatus()
                       : ArrowWriteError(status, action, path_);
  }

  absl::Status FlushRowGroup() {
    const int64_t rows = std::exchange(pending_rows_, 0);
    pending_bytes_ = 0;
    return Guard("write", [&]() -> arrow::Status {
      arrow::ArrayVector arrays;
      for (const auto& builder : builders_) {
        ARROW_ASSIGN_OR_RAISE(auto array, builder->Finish());
        arrays.push_back(std::move(array));
      }
      return writer_->WriteTable(
          *arrow::Table::Make(schema_, std::move(arrays), rows), rows);
    });
  }

  const std::string path_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::unique_ptr<ColumnBuilder>> builders_;
  std::shared_ptr<arrow::io::FileOutputStream> file_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
  int64_t pending_rows_ = 0;
  uint64_t pending_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShardWriter>> NewParquetWriter(
    const std::string& path, const Schema& schema) {
  auto writer = std::make_unique<ParquetWriter>(path);
  MR_RETURN_IF_ERROR(writer->Open(schema));
  return writer;
}

absl::Status SealParquet(const std::string& path,
                         const ShardMetadata& metadata) {
  MR_ASSIGN_OR_RETURN(const std::string open_json, OpenJson(metadata));
  MR_ASSIGN_OR_RETURN(std::string sealed, JsonOf(metadata));
  if (sealed.size() > open_json.size()) {
    return absl::InternalError("the metadata exceeds its room in the footer");
  }
  sealed.resize(open_json.size(), ' ');  // JSON may end with spaces
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return FileError(errno, "complete", path);
  absl::Status status = SealFile(fd, path, open_json, sealed);
  close(fd);
  return status.ok() ? SyncToDisk(path) : status;
}

}  // namespace millrace::storage
