// BatchColumn is one field of one record batch: it gives the bytes of each row
// where they lie. Numbers of another width are widened, bits become bytes.
//
// No value of the file is trusted: Resolve() checks the sizes of all buffers
// against the lengths of the arrays, in constant time, and Read() checks each
// offset against the end of what it points into. Memory that others change
// meanwhile gives wrong values, never an access outside of the buffers.
//
// Belongs to one thread at a time after Resolve(); Read() is const and may run
// on many. Does not own the buffers or the layout.
//
//   MR_RETURN_IF_ERROR(column.Resolve(layout, message, buffers));
//   MR_RETURN_IF_ERROR(column.Read(row, &scratch, &view));

#ifndef MILLRACE_SERVER_STORAGE_ARROW_BATCH_COLUMN_H_
#define MILLRACE_SERVER_STORAGE_ARROW_BATCH_COLUMN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/storage/arrow/column_layout.h"
#include "server/storage/arrow/ipc_message.h"

namespace millrace::storage {

// Number of a buffer in the batch, with the buffers of views before it. Absent:
// the header is damaged.
std::optional<uint64_t> BufferIndex(const IpcMessage& message,
                                    const BufferNumber& number);

class BatchColumn {
 public:
  // Calls `use` with the number of each buffer that Resolve() asks for. False:
  // the header is damaged.
  static bool ForEachBuffer(const ColumnLayout& layout,
                            const IpcMessage& message,
                            absl::FunctionRef<bool(uint64_t buffer)> use);

  // Buffer number `i` of the batch, uncompressed; absent: it is damaged.
  using Buffers =
      absl::FunctionRef<std::optional<absl::Span<const uint8_t>>(uint64_t i)>;

  // DataLoss: the arrays of the batch do not fit together.
  absl::Status Resolve(const ColumnLayout& layout, const IpcMessage& message,
                       Buffers buffers);

  // Sets `view` to the bytes of the row, which is in the batch. They lie in the
  // buffers or in `scratch`, which must not be shared by columns. DataLoss: a
  // null, or damage; names the column.
  absl::Status Read(int64_t row, std::vector<uint8_t>* scratch,
                    absl::Span<const uint8_t>* view) const;

 private:
  struct Level {
    ColumnLevel::Kind kind = ColumnLevel::Kind::kStruct;
    int64_t items = -1;
    int64_t length = 0;                 // of the array
    const uint8_t* validity = nullptr;  // null: no element is
    absl::Span<const uint8_t> values;   // offsets of lists and texts; views
    absl::Span<const uint8_t> bytes;    // of texts
  };
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  absl::Status Damaged() const;
  // Moves `range` from the elements of a list level to those inside of them.
  template <typename Offset>
  bool EnterLists(const Level& level, Range* range) const;
  template <typename Offset>
  bool ReadBinary(const Level& level, int64_t at,
                  absl::Span<const uint8_t>* view) const;
  bool ReadView(const Level& level, int64_t at,
                absl::Span<const uint8_t>* view) const;
  bool ReadNumbers(const Level& level, const Range& range,
                   std::vector<uint8_t>* scratch,
                   absl::Span<const uint8_t>* view) const;

  const ColumnLayout* layout_ = nullptr;
  std::vector<Level> levels_;
  std::vector<absl::Span<const uint8_t>> view_bytes_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_ARROW_BATCH_COLUMN_H_
