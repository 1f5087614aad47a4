#include "server/storage/arrow/ipc_file.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "server/storage/columns/arrow_error.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kMagic = "ARROW1";
// In front of the stream that a file contains.
constexpr uint64_t kMagicBytes = 8;
constexpr absl::string_view kFeather1Magic = "FEA1";
// A length before the header begins with it; not before Arrow 0.15.
constexpr uint32_t kContinuation = 0xFFFFFFFF;
constexpr char kFeaturesKey[] = "huggingface";

// Max bytes of the header of a message: that of a schema with 10,000 columns
// has 1.5 MiB, that of its batches 0.6 MiB.
constexpr uint64_t kMaxHeaderBytes = 16 << 20;
// Upper bound of the memory that Arrow takes for a parsed schema, for each byte
// of its header.
constexpr uint64_t kSchemaTimes = 20;
// Of a record batch in a footer.
constexpr uint64_t kBlockBytes = 24;
// Batches are admitted in steps of so many.
constexpr size_t kBatchStep = 4096;

// Versions of Arrow's format that are read.
constexpr int16_t kMinVersion = 3;  // V4, from Arrow 0.8 on
constexpr int16_t kMaxVersion = 4;  // V5

bool HasUnion(const arrow::DataType& type) {
  if (type.id() == arrow::Type::SPARSE_UNION ||
      type.id() == arrow::Type::DENSE_UNION) {
    return true;
  }
  return std::any_of(
      type.fields().begin(), type.fields().end(),
      [](const auto& field) { return HasUnion(*field->type()); });
}

}  // namespace

absl::Status IpcFile::Damaged(absl::string_view why) const {
  return absl::DataLossError(absl::StrCat(
      path(), " ", why, "; copy the file again, or write it again"));
}

absl::Status IpcFile::Take(uint64_t bytes, Admit admit) {
  MR_RETURN_IF_ERROR(admit(bytes));
  memory_bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<const IpcFile>> IpcFile::Open(
    const std::string& path, Admit admit) {
  MR_ASSIGN_OR_RETURN(auto mapped, MappedFile::Open(path));
  std::unique_ptr<IpcFile> file(new IpcFile(std::move(mapped)));
  const absl::Status loaded = file->Load(admit);
  // In a changed file, damage is reported as the change.
  MR_RETURN_IF_ERROR(file->CheckUnchanged());
  MR_RETURN_IF_ERROR(loaded);
  file->header_hash_ = file->headers_.value();
  return std::unique_ptr<const IpcFile>(std::move(file));
}

absl::Status IpcFile::Load(Admit admit) {
  const absl::Span<const uint8_t> data = file_->data();
  std::string start(data.begin(),
                    data.begin() + std::min<size_t>(data.size(), kMagicBytes));
  if (start.empty()) return Damaged("is empty");
  if (absl::StartsWith(start, kFeather1Magic)) {
    return absl::UnimplementedError(absl::StrCat(
        path(),
        " is a Feather file of version 1, which the server does not read: "
        "write it again as version 2 (pyarrow.feather.write_feather)"));
  }
  if (absl::StartsWith(start, kMagic)) return LoadFooter(admit);
  return LoadStream(0, admit);
}

absl::StatusOr<IpcFile::Frame> IpcFile::ReadFrame(uint64_t at) const {
  uint8_t start[8] = {};
  MR_ASSIGN_OR_RETURN(const uint64_t got, file_->Read(at, start));
  uint32_t length = 0;
  std::memcpy(&length, start, sizeof(length));
  uint64_t prefix = sizeof(length);
  if (length == kContinuation) {
    std::memcpy(&length, start + sizeof(length), sizeof(length));
    prefix += sizeof(length);
  }
  // A stream may end without a mark.
  if (got == 0 && at == bytes()) return Frame{};
  if (got < prefix) {
    return Damaged(absl::StrCat("ends at byte ", bytes(),
                                ", inside the message at byte ", at));
  }
  if (length == 0) return Frame{};
  Frame frame = {.header = at + prefix,
                 .header_bytes = length,
                 .body = at + prefix + length};
  if (length > kMaxHeaderBytes || frame.body > bytes()) {
    return Damaged(
        absl::StrCat("is truncated or no Arrow file: the message at byte ", at,
                     " has a header of ", length, " bytes, and the file has ",
                     bytes(), " bytes"));
  }
  return frame;
}

absl::Status IpcFile::Parse(const Frame& frame, Header* header) const {
  header->bytes.resize(frame.header_bytes);
  MR_ASSIGN_OR_RETURN(const uint64_t got,
                      file_->Read(frame.header, absl::MakeSpan(header->bytes)));
  const auto damaged = [&](absl::string_view why) {
    return Damaged(absl::StrCat("has, at byte ", frame.header, ", ", why));
  };
  if (got < header->bytes.size()) return damaged("a message that is cut off");
  const auto message = IpcMessage::Parse(header->bytes);
  if (!message.has_value()) return damaged("no message of Arrow");
  header->message = *message;
  if (message->version < kMinVersion || message->version > kMaxVersion) {
    return absl::UnimplementedError(absl::StrCat(
        path(), " has messages of version V", message->version + 1,
        " of Arrow's format, and the server reads V4 and V5: write the file "
        "again with a current Arrow"));
  }
  if (message->body_bytes > bytes() - frame.body) {
    return Damaged(absl::StrCat(
        "is truncated: the message at byte ", frame.header, " has a body of ",
        message->body_bytes, " bytes from byte ", frame.body,
        " on, and the file has ", bytes(), " bytes"));
  }
  return absl::OkStatus();
}

absl::Status IpcFile::ReadSchema(const Frame& frame, Admit admit) {
  if (frame.header_bytes == 0) {
    return Damaged("is no Arrow file: it has no schema");
  }
  MR_RETURN_IF_ERROR(Take(frame.header_bytes * kSchemaTimes, admit));
  Header header;
  MR_RETURN_IF_ERROR(Parse(frame, &header));
  if (header.message.kind != IpcMessage::kSchema) {
    return Damaged("is no Arrow file: its first message is no schema");
  }
  const auto buffer = std::make_shared<arrow::Buffer>(
      header.bytes.data(), static_cast<int64_t>(header.bytes.size()));
  const auto read = [&]() -> arrow::Result<std::shared_ptr<arrow::Schema>> {
    ARROW_ASSIGN_OR_RAISE(const auto message,
                          arrow::ipc::Message::Open(buffer, nullptr));
    arrow::ipc::DictionaryMemo dictionaries;
    return arrow::ipc::ReadSchema(*message, &dictionaries);
  };
  return SetSchema(read(), header.bytes);
}

absl::Status IpcFile::ReadFooterSchema(absl::Span<const uint8_t> footer) {
  // Arrow reads a footer's schema of a file alone: here, of one without
  // batches. The schema in front of the batches is not looked at: polars writes
  // it without its frame.
  std::string file(kMagic);
  file.resize(kMagicBytes);
  file.append(footer.begin(), footer.end());
  const auto length = static_cast<int32_t>(footer.size());
  file.append(reinterpret_cast<const char*>(&length), sizeof(length));
  file.append(kMagic.data(), kMagic.size());
  const auto read = [&]() -> arrow::Result<std::shared_ptr<arrow::Schema>> {
    ARROW_ASSIGN_OR_RAISE(
        const auto reader,
        arrow::ipc::RecordBatchFileReader::Open(
            std::make_shared<arrow::io::BufferReader>(
                std::make_shared<arrow::Buffer>(
                    reinterpret_cast<const uint8_t*>(file.data()),
                    static_cast<int64_t>(file.size())))));
    return reader->schema();
  };
  return SetSchema(read(), footer);
}

absl::Status IpcFile::SetSchema(
    arrow::Result<std::shared_ptr<arrow::Schema>> schema,
    absl::Span<const uint8_t> bytes) {
  if (!schema.ok()) {
    return ArrowReadError(schema.status(), "read the schema of", path());
  }
  schema_ = *std::move(schema);
  if (!schema_->is_native_endian()) {
    return absl::UnimplementedError(
        absl::StrCat(path(),
                     " has big-endian numbers, which the server does not read: "
                     "write the file again on a little-endian machine"));
  }
  for (const auto& field : schema_->fields()) {
    has_union_ |= HasUnion(*field->type());
  }
  if (schema_->metadata() != nullptr) {
    const auto features = schema_->metadata()->Get(kFeaturesKey);
    if (features.ok()) features_json_ = *features;
  }
  headers_.Add(-1, {&bytes, 1});
  return absl::OkStatus();
}

absl::Status IpcFile::AddBatch(const Frame& frame, const Header& header,
                               Admit admit) {
  const IpcMessage& batch = header.message;
  const absl::Span<const uint8_t> part = header.bytes;
  headers_.Add(batches(), {&part, 1});
  if (batch.rows == 0) return absl::OkStatus();
  if (batch.rows > INT64_MAX - rows_ || batches_.size() >= INT32_MAX) {
    return Damaged("has an impossible number of rows");
  }
  if (has_union_ && batch.version == kMinVersion) {
    return absl::UnimplementedError(absl::StrCat(
        path(),
        " has a union in an old layout (V4 of Arrow's format): write "
        "the file again with a current Arrow"));
  }
  if (batch.codec == IpcMessage::Codec::kOther) {
    return absl::UnimplementedError(absl::StrCat(
        path(),
        " is compressed in a way that the server does not know: write "
        "it again with lz4, zstd or without compression"));
  }
  compressed_ |= batch.codec != IpcMessage::Codec::kNone;
  if (batches_.size() == batches_.capacity()) {
    // While a vector grows, the old one is there, too.
    const size_t more = std::max(kBatchStep, batches_.size());
    MR_RETURN_IF_ERROR(Take(more * sizeof(Batch), admit));
    batches_.reserve(batches_.size() + more);
  }
  batches_.push_back({.header = frame.header,
                      .body = frame.body,
                      .header_bytes = static_cast<uint32_t>(frame.header_bytes),
                      .first_row = rows_});
  rows_ += batch.rows;
  return absl::OkStatus();
}

absl::Status IpcFile::LoadStream(uint64_t at, Admit admit) {
  MR_ASSIGN_OR_RETURN(Frame frame, ReadFrame(at));
  MR_RETURN_IF_ERROR(ReadSchema(frame, admit));
  Header header;
  for (at = frame.body;;) {
    MR_ASSIGN_OR_RETURN(frame, ReadFrame(at));
    if (frame.header_bytes == 0) return absl::OkStatus();
    MR_RETURN_IF_ERROR(Parse(frame, &header));
    switch (header.message.kind) {
      case IpcMessage::kRecordBatch:
        MR_RETURN_IF_ERROR(AddBatch(frame, header, admit));
        break;
      case IpcMessage::kDictionaryBatch:
        break;  // dictionaries are no fields
      default:
        return Damaged(absl::StrCat("has, at byte ", frame.header,
                                    ", a message that belongs to no table"));
    }
    at = frame.body + header.message.body_bytes;
  }
}

absl::Status IpcFile::LoadFooter(Admit admit) {
  // The length of the footer, and the magic number.
  constexpr uint64_t kEndBytes = sizeof(int32_t) + kMagic.size();
  if (bytes() < kMagicBytes + kEndBytes) return Damaged("is truncated");
  uint8_t end[kEndBytes] = {};
  MR_ASSIGN_OR_RETURN(const uint64_t got,
                      file_->Read(bytes() - kEndBytes, end));
  const absl::string_view magic(
      reinterpret_cast<const char*>(end) + sizeof(int32_t), kMagic.size());
  if (got < kEndBytes || magic != kMagic) {
    return Damaged(
        "is truncated: it has no footer, and its writer may not have closed "
        "it");
  }
  int32_t length = 0;
  std::memcpy(&length, end, sizeof(length));
  const uint64_t room = bytes() - kMagicBytes - kEndBytes;
  if (length <= 0 || static_cast<uint64_t>(length) > room) {
    return Damaged(absl::StrCat("is damaged: its footer has ", length,
                                " bytes, and the file has ", bytes(),
                                " bytes"));
  }
  // The footer, a copy, and the blocks that are made of it.
  const auto footer_bytes = static_cast<uint64_t>(length);
  MR_RETURN_IF_ERROR(Take(3 * footer_bytes, admit));
  std::vector<uint8_t> footer(footer_bytes);
  MR_ASSIGN_OR_RETURN(
      const uint64_t read,
      file_->Read(bytes() - kEndBytes - footer_bytes, absl::MakeSpan(footer)));
  if (read < footer_bytes) return Damaged("has a footer that is cut off");
  const auto blocks = ParseIpcFooter(footer);
  if (!blocks.has_value()) return Damaged("has a damaged footer");
  // Beside the lists of batches.
  const uint64_t schema_bytes =
      footer_bytes - std::min(footer_bytes, blocks->size() * kBlockBytes);
  MR_RETURN_IF_ERROR(Take(schema_bytes * kSchemaTimes, admit));
  MR_RETURN_IF_ERROR(ReadFooterSchema(footer));
  Header header;
  for (const IpcBlock& block : *blocks) {
    if (block.begin > bytes()) {
      return Damaged(
          absl::StrCat("is damaged: its footer names a batch at byte ",
                       block.begin, ", and the file has ", bytes(), " bytes"));
    }
    MR_ASSIGN_OR_RETURN(Frame frame, ReadFrame(block.begin));
    if (frame.header_bytes == 0) {
      return Damaged(absl::StrCat("has no record batch at byte ", block.begin,
                                  ", where its footer names one"));
    }
    MR_RETURN_IF_ERROR(Parse(frame, &header));
    if (header.message.kind != IpcMessage::kRecordBatch ||
        frame.body - block.begin != block.header_bytes ||
        header.message.body_bytes != block.body_bytes) {
      return Damaged(absl::StrCat("has, at byte ", block.begin,
                                  ", another message than its footer names"));
    }
    MR_RETURN_IF_ERROR(AddBatch(frame, header, admit));
  }
  return absl::OkStatus();
}

int IpcFile::BatchOf(int64_t row) const {
  const auto after = std::upper_bound(batches_.begin(), batches_.end(), row,
                                      [](int64_t wanted, const Batch& batch) {
                                        return wanted < batch.first_row;
                                      });
  return static_cast<int>(after - batches_.begin()) - 1;
}

bool IpcFile::ReadHeader(int batch, Header* header) const {
  const Batch& at = batches_[batch];
  const absl::Span<const uint8_t> bytes =
      file_->data().subspan(at.header, at.header_bytes);
  // A copy does not change while it is parsed.
  header->bytes.assign(bytes.begin(), bytes.end());
  const auto message = IpcMessage::Parse(header->bytes);
  if (!message.has_value() || message->kind != IpcMessage::kRecordBatch ||
      message->rows != end_row(batch) - at.first_row ||
      message->body_bytes > file_->data().size() - at.body) {
    return false;
  }
  header->message = *message;
  return true;
}

absl::Span<const uint8_t> IpcFile::Body(int batch, const Header& header) const {
  return file_->data().subspan(batches_[batch].body, header.message.body_bytes);
}

}  // namespace millrace::storage
