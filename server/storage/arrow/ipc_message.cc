#include "server/storage/arrow/ipc_message.h"

#include <cstring>

#include "server/storage/arrow/flat_table.h"

namespace millrace::storage {
namespace {

// Slots of the tables in Arrow's format/Message.fbs and format/File.fbs.
constexpr int kMessageVersion = 0;
constexpr int kMessageHeaderType = 1;
constexpr int kMessageHeader = 2;
constexpr int kMessageBodyLength = 3;
constexpr int kBatchLength = 0;
constexpr int kBatchNodes = 1;
constexpr int kBatchBuffers = 2;
constexpr int kBatchCompression = 3;
constexpr int kBatchVariadicCounts = 4;
constexpr int kCompressionCodec = 0;
constexpr int kCompressionMethod = 1;
constexpr int kFooterRecordBatches = 3;

constexpr uint64_t kNodeBytes = 16;
constexpr uint64_t kBufferBytes = 16;
constexpr uint64_t kBlockBytes = 24;
constexpr uint64_t kCountBytes = 8;

int64_t Int64At(absl::Span<const uint8_t> bytes, uint64_t at) {
  int64_t value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

int32_t Int32At(absl::Span<const uint8_t> bytes, uint64_t at) {
  int32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

IpcMessage::Codec CodecOf(const FlatTable& compression) {
  // The only method so far is 0: each buffer by itself.
  if (compression.Number<int8_t>(kCompressionMethod, 0) != 0) {
    return IpcMessage::Codec::kOther;
  }
  switch (compression.Number<int8_t>(kCompressionCodec, 0)) {
    case 0:
      return IpcMessage::Codec::kLz4;
    case 1:
      return IpcMessage::Codec::kZstd;
    default:
      return IpcMessage::Codec::kOther;
  }
}

}  // namespace

std::optional<IpcMessage> IpcMessage::Parse(absl::Span<const uint8_t> header) {
  const std::optional<FlatTable> table = FlatTable::Root(header);
  if (!table.has_value()) return std::nullopt;
  IpcMessage message;
  message.version = table->Number<int16_t>(kMessageVersion, 0);
  const auto kind = table->Number<uint8_t>(kMessageHeaderType, 0);
  const auto body = table->Number<int64_t>(kMessageBodyLength, 0);
  if (kind > kRecordBatch || body < 0) return std::nullopt;
  message.kind = static_cast<Kind>(kind);
  message.body_bytes = static_cast<uint64_t>(body);
  if (message.kind != kRecordBatch) return message;
  const std::optional<FlatTable> batch = table->Table(kMessageHeader);
  if (!batch.has_value()) return std::nullopt;
  message.rows = batch->Number<int64_t>(kBatchLength, 0);
  if (message.rows < 0) return std::nullopt;
  const auto nodes = batch->Vector(kBatchNodes, kNodeBytes, &message.nodes);
  const auto buffers =
      batch->Vector(kBatchBuffers, kBufferBytes, &message.buffers);
  message.node_bytes_ = nodes.value_or(absl::Span<const uint8_t>());
  message.buffer_bytes_ = buffers.value_or(absl::Span<const uint8_t>());
  if (const auto counts =
          batch->Vector(kBatchVariadicCounts, kCountBytes, &message.variadic)) {
    message.variadic_bytes_ = *counts;
  }
  if (const auto compression = batch->Table(kBatchCompression)) {
    message.codec = CodecOf(*compression);
  }
  return message;
}

std::optional<IpcNode> IpcMessage::NodeAt(uint64_t i) const {
  if (i >= nodes) return std::nullopt;
  const IpcNode node = {
      .length = Int64At(node_bytes_, i * kNodeBytes),
      .nulls = Int64At(node_bytes_, i * kNodeBytes + sizeof(int64_t))};
  if (node.length < 0) return std::nullopt;
  return node;
}

std::optional<IpcBuffer> IpcMessage::BufferAt(uint64_t i) const {
  if (i >= buffers) return std::nullopt;
  const int64_t begin = Int64At(buffer_bytes_, i * kBufferBytes);
  const int64_t bytes =
      Int64At(buffer_bytes_, i * kBufferBytes + sizeof(int64_t));
  if (begin < 0 || bytes < 0) return std::nullopt;
  const IpcBuffer buffer = {.begin = static_cast<uint64_t>(begin),
                            .bytes = static_cast<uint64_t>(bytes)};
  // Writers give an empty buffer any place.
  if (buffer.bytes == 0) return IpcBuffer();
  if (buffer.begin > body_bytes || buffer.bytes > body_bytes - buffer.begin) {
    return std::nullopt;
  }
  return buffer;
}

std::optional<uint64_t> IpcMessage::VariadicAt(uint64_t i) const {
  if (i >= variadic) return std::nullopt;
  const int64_t count = Int64At(variadic_bytes_, i * kCountBytes);
  if (count < 0 || static_cast<uint64_t>(count) > buffers) return std::nullopt;
  return static_cast<uint64_t>(count);
}

std::optional<std::vector<IpcBlock>> ParseIpcFooter(
    absl::Span<const uint8_t> footer) {
  const std::optional<FlatTable> table = FlatTable::Root(footer);
  if (!table.has_value()) return std::nullopt;
  std::vector<IpcBlock> blocks;
  uint64_t count = 0;
  const auto entries = table->Vector(kFooterRecordBatches, kBlockBytes, &count);
  if (!entries.has_value()) return blocks;
  blocks.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = i * kBlockBytes;
    const int64_t begin = Int64At(*entries, at);
    const int32_t header = Int32At(*entries, at + 8);
    const int64_t body = Int64At(*entries, at + 16);
    if (begin < 0 || header < 0 || body < 0) return std::nullopt;
    blocks.push_back({.begin = static_cast<uint64_t>(begin),
                      .header_bytes = static_cast<uint64_t>(header),
                      .body_bytes = static_cast<uint64_t>(body)});
  }
  return blocks;
}

}  // namespace millrace::storage
