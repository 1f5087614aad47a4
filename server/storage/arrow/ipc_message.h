// IpcMessage is the header of one message of Arrow's IPC formats: what it is,
// how long its body is, and for a record batch, where the buffers of its
// columns lie in the body. IpcFooter lists the record batches of a file.
//
// It reads headers alone, never a body, and trusts nothing: whatever it gives
// lies inside the header, and buffers lie inside the body that the header
// claims. The caller compares that with the size of the file.
//
// Plain data; does not own the bytes, which must not change meanwhile.
//
//   const auto message = IpcMessage::Parse(header);
//   if (message.has_value() && message->kind == IpcMessage::kRecordBatch) {
//     const std::optional<IpcBuffer> buffer = message->BufferAt(2);
//   }

#ifndef MILLRACE_SERVER_STORAGE_ARROW_IPC_MESSAGE_H_
#define MILLRACE_SERVER_STORAGE_ARROW_IPC_MESSAGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace millrace::storage {

// An array of a batch: one for each type in the tree of the schema's types.
struct IpcNode {
  int64_t length = 0;
  int64_t nulls = 0;
};

struct IpcBuffer {
  uint64_t begin = 0;  // in the body
  uint64_t bytes = 0;  // as stored
};

struct IpcMessage {
  enum Kind : uint8_t {
    kNone = 0,
    kSchema = 1,
    kDictionaryBatch = 2,
    kRecordBatch = 3,
  };
  enum class Codec : int8_t { kNone = -1, kLz4 = 0, kZstd = 1, kOther = 2 };

  // Absent: no message, or one with impossible numbers.
  static std::optional<IpcMessage> Parse(absl::Span<const uint8_t> header);

  // Of a record batch. Absent: the batch has fewer, or the values are negative
  // or outside of the body.
  std::optional<IpcNode> NodeAt(uint64_t i) const;
  std::optional<IpcBuffer> BufferAt(uint64_t i) const;
  // Buffers of column number `i` of those with views.
  std::optional<uint64_t> VariadicAt(uint64_t i) const;

  int16_t version = 0;  // 4 is V5
  Kind kind = kNone;
  uint64_t body_bytes = 0;
  // Of a record batch:
  int64_t rows = 0;
  uint64_t nodes = 0;
  uint64_t buffers = 0;
  uint64_t variadic = 0;
  Codec codec = Codec::kNone;

 private:
  absl::Span<const uint8_t> node_bytes_;
  absl::Span<const uint8_t> buffer_bytes_;
  absl::Span<const uint8_t> variadic_bytes_;
};

struct IpcBlock {
  uint64_t begin = 0;         // of the message in the file
  uint64_t header_bytes = 0;  // with its length before it
  uint64_t body_bytes = 0;
};

// The record batches that a footer lists, in their order. Absent: no footer.
std::optional<std::vector<IpcBlock>> ParseIpcFooter(
    absl::Span<const uint8_t> footer);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_ARROW_IPC_MESSAGE_H_
