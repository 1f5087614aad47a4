// TfrecordScanner finds the records of a TFRecord file. A file is a sequence of
//
//   u64 length | u32 masked CRC-32C of the length | payload | u32 masked
//   CRC-32C of the payload              (little-endian)
//
// An extent is a payload with the checksum behind it: the scanner reads and
// checks the 12 bytes before each payload, and ExampleRule::Split() checks the
// payload when it is read (CheckPayload).
//
// One thread at a time; the window must outlive the scanner.

#ifndef MILLRACE_SERVER_STORAGE_TFRECORD_TFRECORD_SCANNER_H_
#define MILLRACE_SERVER_STORAGE_TFRECORD_TFRECORD_SCANNER_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/extents/extent_format.h"
#include "server/storage/extents/object_window.h"

namespace millrace::storage {

class TfrecordScanner : public RecordScanner {
 public:
  explicit TfrecordScanner(ObjectWindow* window) : window_(*window) {}

  absl::StatusOr<std::optional<IndexedRecord>> Next() override;

 private:
  ObjectWindow& window_;
  uint64_t at_ = 0;
};

// The payload of an extent. DataLoss: the payload is not that of its checksum; a
// sentence about the record, without its place.
absl::StatusOr<absl::Span<const uint8_t>> CheckPayload(
    absl::Span<const uint8_t> extent);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TFRECORD_TFRECORD_SCANNER_H_
