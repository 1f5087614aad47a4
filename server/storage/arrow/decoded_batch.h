// DecodedBatch is what a record batch with compressed buffers takes to be read:
// the buffers of some of its columns, decompressed, and these columns over
// them. Its size is known before it is made.
//
// Immutable once made, thread-safe. Owns its memory.
//
//   DecodedSize size;
//   MR_RETURN_IF_ERROR(SizeOfBatch(message, body, columns, &size));
//   MR_ASSIGN_OR_RETURN(auto batch, DecodedBatch::Make(message, body,
//   columns));

#ifndef MILLRACE_SERVER_STORAGE_ARROW_DECODED_BATCH_H_
#define MILLRACE_SERVER_STORAGE_ARROW_DECODED_BATCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/arrow/batch_column.h"
#include "server/storage/arrow/column_layout.h"
#include "server/storage/arrow/ipc_message.h"
#include "server/storage/columns/bounded_pool.h"
#include "server/storage/columns/row_group_cache.h"

namespace millrace::storage {

// Memory to decompress columns of a batch, in bytes.
struct DecodedSize {
  std::vector<uint64_t> columns;  // of each column
  uint64_t codec = 0;             // while a buffer is decompressed
  uint64_t fixed = 0;             // beside the buffers
  uint64_t Sum() const;
};

using Layouts = std::vector<const ColumnLayout*>;

// `body`: of the batch, in the file. DataLoss: a buffer is damaged; names the
// column.
absl::Status SizeOfBatch(const IpcMessage& message,
                         absl::Span<const uint8_t> body, const Layouts& columns,
                         DecodedSize* size);

class DecodedBatch final : public CachedRowGroup {
 public:
  // Takes no more than `max_bytes`, which is what SizeOfBatch() said.
  // DataLoss: a buffer is damaged, or does not have the size that it claims.
  // ResourceExhausted: the system has no memory, or `max_bytes` are too few
  // because the file has changed.
  static absl::StatusOr<std::shared_ptr<DecodedBatch>> Make(
      const IpcMessage& message, absl::Span<const uint8_t> body,
      const Layouts& columns, uint64_t max_bytes);
  ~DecodedBatch() override;

  uint64_t bytes() const override { return bytes_; }
  // In the order of `columns`.
  const std::vector<BatchColumn>& columns() const { return columns_; }

 private:
  struct Buffer {
    uint8_t* data = nullptr;
    int64_t bytes = 0;
  };

  DecodedBatch() = default;
  absl::Status Decompress(const IpcMessage& message,
                          absl::Span<const uint8_t> body,
                          const ColumnLayout& layout, uint64_t max_bytes);

  uint64_t bytes_ = 0;
  std::map<uint64_t, Buffer> buffers_;  // by number
  std::vector<BatchColumn> columns_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_ARROW_DECODED_BATCH_H_
