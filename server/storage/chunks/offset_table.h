// OffsetTableScanner finds the records of a chunk file (an MDS shard, a LitData
// chunk) by the table at its beginning:
//
//   u32 N | u32 offset[N + 1] | (a gap) | the records, one behind another
//
// Record i lies from offset[i] to offset[i + 1].
//
// It does not look into records (column_rule.h does). It reads the table in
// blocks, so its memory does not grow with the table.
//
// One thread at a time. The window must outlive it.
//
//   MR_ASSIGN_OR_RETURN(auto scanner, OffsetTableScanner::Create(window, {}));
//   MR_ASSIGN_OR_RETURN(auto record, scanner->Next());

#ifndef MILLRACE_SERVER_STORAGE_CHUNKS_OFFSET_TABLE_H_
#define MILLRACE_SERVER_STORAGE_CHUNKS_OFFSET_TABLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/storage/extents/extent_format.h"
#include "server/storage/extents/object_window.h"

namespace millrace::storage {

struct OffsetTableOptions {
  // Whether bytes may lie between the table and the first record.
  bool gap = false;
  // Bytes may follow the last record if the object ends with these; empty:
  // nothing may follow.
  std::string trailer_end;
};

class OffsetTableScanner : public RecordScanner {
 public:
  // DataLoss: the table does not fit into the object, or its first record does
  // not begin behind it. Errors of the window.
  static absl::StatusOr<std::unique_ptr<OffsetTableScanner>> Create(
      ObjectWindow& window, OffsetTableOptions options);

  absl::StatusOr<std::optional<IndexedRecord>> Next() override;

  uint64_t records() const { return records_; }
  // Where the first record begins.
  uint64_t first_offset() const { return first_offset_; }
  // Where the table ends.
  uint64_t table_end() const;
  // Where the last record ends by the table. It is not checked.
  absl::StatusOr<uint64_t> LastOffset() { return OffsetAt(records_); }

 private:
  OffsetTableScanner(ObjectWindow& window, OffsetTableOptions options)
      : window_(window), options_(std::move(options)) {}
  absl::StatusOr<uint64_t> OffsetAt(uint64_t i);
  absl::Status CheckEnd();

  ObjectWindow& window_;
  const OffsetTableOptions options_;
  uint64_t records_ = 0;
  uint64_t first_offset_ = 0;
  uint64_t next_ = 0;    // number of the next record
  uint64_t offset_ = 0;  // where it begins
  bool ended_ = false;
  // Offsets from number block_first_ on.
  std::vector<uint32_t> block_;
  uint64_t block_first_ = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CHUNKS_OFFSET_TABLE_H_
