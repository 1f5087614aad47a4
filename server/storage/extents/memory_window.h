// MemoryWindow is the ObjectWindow over bytes in memory: of one record, or of a
// test.
//
// One thread at a time. Does not own the bytes; what At() returns lives as long
// as they do.

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_MEMORY_WINDOW_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_MEMORY_WINDOW_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "server/storage/extents/object_window.h"

namespace millrace::storage {

class MemoryWindow final : public ObjectWindow {
 public:
  explicit MemoryWindow(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  uint64_t size() const override { return bytes_.size(); }
  absl::StatusOr<absl::Span<const uint8_t>> At(uint64_t offset,
                                               uint64_t bytes) override {
    if (offset <= size() && bytes <= size() - offset) {
      return bytes_.subspan(offset, bytes);
    }
    return absl::DataLossError(
        absl::StrCat("byte ", offset, ": the object ends at byte ", size(),
                     ", before the next ", bytes, " bytes"));
  }

 private:
  const absl::Span<const uint8_t> bytes_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_MEMORY_WINDOW_H_
