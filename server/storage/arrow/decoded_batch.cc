#include "server/storage/arrow/decoded_batch.h"

#include <arrow/util/compression.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/page_load.h"

namespace millrace::storage {
namespace {

// i64 size of the uncompressed buffer; -1: the buffer follows uncompressed.
constexpr uint64_t kSizeBytes = 8;
constexpr int64_t kStored = -1;

// The context of Zstandard. The call decompresses into the buffer, so the
// window of the frame takes no memory.
constexpr uint64_t kZstdBytes = 128 << 10;

// LZ4's context and, twice, a block of the frame.
uint64_t Lz4Bytes(absl::Span<const uint8_t> frame) {
  constexpr uint64_t kContextBytes = 192 << 10;
  constexpr size_t kSizeByte =
      5;  // behind the magic number and a byte of flags
  if (frame.size() <= kSizeByte) return kContextBytes;
  const int code = PageLoad<uint8_t>(&frame[kSizeByte]) >> 4 & 7;
  // 4 stands for 64 KiB, 7 for 4 MiB.
  return kContextBytes + (uint64_t{2} << (8 + 2 * std::max(code, 4)));
}

absl::Status Damaged(const ColumnLayout& layout, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat("column '", layout.name, "' is damaged: ", why,
                   "; copy the file again, or write it again"));
}

// A buffer as it is stored.
struct Stored {
  absl::Span<const uint8_t> bytes;  // without the size
  uint64_t size = 0;                // uncompressed
  bool compressed = false;
};

std::optional<Stored> StoredAt(const IpcMessage& message,
                               absl::Span<const uint8_t> body, uint64_t i) {
  const std::optional<IpcBuffer> place = message.BufferAt(i);
  if (!place.has_value()) return std::nullopt;
  const absl::Span<const uint8_t> bytes =
      body.subspan(place->begin, place->bytes);
  if (bytes.empty()) return Stored();
  if (bytes.size() < kSizeBytes) return std::nullopt;
  const auto size = PageLoad<int64_t>(bytes.data());
  if (size < kStored) return std::nullopt;
  Stored stored = {.bytes = bytes.subspan(kSizeBytes),
                   .compressed = size != kStored};
  stored.size =
      size == kStored ? stored.bytes.size() : static_cast<uint64_t>(size);
  return stored;
}

uint64_t CodecBytes(IpcMessage::Codec codec, const Stored& stored) {
  if (!stored.compressed) return 0;
  return codec == IpcMessage::Codec::kLz4 ? Lz4Bytes(stored.bytes) : kZstdBytes;
}

// Whether the bytes are read where they lie in the file.
bool InPlace(const Stored& stored) {
  return !stored.compressed || stored.size == 0;
}

// Of a buffer of `size` bytes: pages and malloc's or the heap's own share.
uint64_t Charge(uint64_t size) {
  constexpr uint64_t kPage = 4096;
  constexpr uint64_t kNode = 128;
  return size > std::numeric_limits<uint64_t>::max() - 2 * kPage
             ? size
             : (size + kPage - 1) / kPage * kPage + kNode;
}

uint64_t AddUpTo(uint64_t a, uint64_t b) {
  return a > std::numeric_limits<uint64_t>::max() - b
             ? std::numeric_limits<uint64_t>::max()
             : a + b;
}

std::unique_ptr<arrow::util::Codec> MakeCodec(IpcMessage::Codec codec) {
  auto made = arrow::util::Codec::Create(codec == IpcMessage::Codec::kLz4
                                             ? arrow::Compression::LZ4_FRAME
                                             : arrow::Compression::ZSTD);
  return made.ok() ? *std::move(made) : nullptr;
}

}  // namespace

uint64_t DecodedSize::Sum() const {
  uint64_t sum = AddUpTo(fixed, codec);
  for (const uint64_t column : columns) sum = AddUpTo(sum, column);
  return sum;
}

absl::Status SizeOfBatch(const IpcMessage& message,
                         absl::Span<const uint8_t> body, const Layouts& columns,
                         DecodedSize* size) {
  size->columns.clear();
  size->codec = 0;
  size->fixed = sizeof(DecodedBatch);
  for (const ColumnLayout* const layout : columns) {
    uint64_t& bytes = size->columns.emplace_back(0);
    const bool sound =
        BatchColumn::ForEachBuffer(*layout, message, [&](uint64_t i) {
          const std::optional<Stored> stored = StoredAt(message, body, i);
          if (!stored.has_value()) return false;
          size->codec =
              std::max(size->codec, CodecBytes(message.codec, *stored));
          bytes = AddUpTo(bytes,
                          InPlace(*stored) ? Charge(0) : Charge(stored->size));
          return true;
        });
    if (!sound) {
      return Damaged(*layout,
                     "a buffer of its record batch lies outside of it");
    }
    size->fixed += sizeof(BatchColumn) + layout->levels.size() * 128;
  }
  return absl::OkStatus();
}

DecodedBatch::~DecodedBatch() {
  for (const auto& [number, buffer] : buffers_) {
    if (buffer.data != nullptr) {
      BoundedPool::Base()->Free(buffer.data, buffer.bytes,
                                arrow::kDefaultBufferAlignment);
    }
  }
}

absl::Status DecodedBatch::Decompress(const IpcMessage& message,
                                      absl::Span<const uint8_t> body,
                                      const ColumnLayout& layout,
                                      uint64_t max_bytes) {
  const std::unique_ptr<arrow::util::Codec> codec = MakeCodec(message.codec);
  if (codec == nullptr) {
    return absl::UnimplementedError(
        "this program's Arrow library cannot decompress the file");
  }
  absl::Status status;
  const bool sound =
      BatchColumn::ForEachBuffer(layout, message, [&](uint64_t i) {
        const std::optional<Stored> stored = StoredAt(message, body, i);
        if (!stored.has_value()) return false;
        bytes_ = AddUpTo(bytes_,
                         InPlace(*stored) ? Charge(0) : Charge(stored->size));
        if (InPlace(*stored)) return true;
        if (bytes_ > max_bytes) {
          status = absl::ResourceExhaustedError(
              "the record batch has become larger since it was opened");
          return false;
        }
        Buffer& buffer = buffers_[i];
        const auto size = static_cast<int64_t>(stored->size);
        if (!BoundedPool::Base()
                 ->Allocate(size, arrow::kDefaultBufferAlignment, &buffer.data)
                 .ok()) {
          status = absl::ResourceExhaustedError(absl::StrCat(
              "the system has no memory for a buffer of ", size, " bytes"));
          return false;
        }
        buffer.bytes = size;
        const auto got =
            codec->Decompress(static_cast<int64_t>(stored->bytes.size()),
                              stored->bytes.data(), size, buffer.data);
        return got.ok() && *got == size;
      });
  MR_RETURN_IF_ERROR(status);
  return sound ? absl::OkStatus()
               : Damaged(layout,
                         "a buffer of its record batch cannot be "
                         "decompressed");
}

absl::StatusOr<std::shared_ptr<DecodedBatch>> DecodedBatch::Make(
    const IpcMessage& message, absl::Span<const uint8_t> body,
    const Layouts& columns, uint64_t max_bytes) {
  std::shared_ptr<DecodedBatch> batch(new DecodedBatch());
  batch->bytes_ = sizeof(DecodedBatch);
  for (const ColumnLayout* const layout : columns) {
    batch->bytes_ += sizeof(BatchColumn) + layout->levels.size() * 128;
    MR_RETURN_IF_ERROR(batch->Decompress(message, body, *layout, max_bytes));
    const auto buffers =
        [&](uint64_t i) -> std::optional<absl::Span<const uint8_t>> {
      const auto made = batch->buffers_.find(i);
      if (made != batch->buffers_.end()) {
        return absl::Span<const uint8_t>(
            made->second.data, static_cast<size_t>(made->second.bytes));
      }
      const std::optional<Stored> stored = StoredAt(message, body, i);
      if (!stored.has_value() || !InPlace(*stored)) return std::nullopt;
      return stored->size == 0 ? absl::Span<const uint8_t>() : stored->bytes;
    };
    MR_RETURN_IF_ERROR(
        batch->columns_.emplace_back().Resolve(*layout, message, buffers));
  }
  return batch;
}

}  // namespace millrace::storage
