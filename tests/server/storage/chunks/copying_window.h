// CopyingWindow is an ObjectWindow over a text that makes each view a copy of
// exactly the requested bytes, and forgets the view before: a reader outside of
// a view, or of an old view, is found by AddressSanitizer.
//
// One thread at a time.

#ifndef MILLRACE_TESTS_SERVER_STORAGE_CHUNKS_COPYING_WINDOW_H_
#define MILLRACE_TESTS_SERVER_STORAGE_CHUNKS_COPYING_WINDOW_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "server/storage/extents/object_window.h"

namespace millrace::storage {

class CopyingWindow final : public ObjectWindow {
 public:
  explicit CopyingWindow(std::string bytes) : bytes_(std::move(bytes)) {}

  uint64_t size() const override { return bytes_.size(); }
  absl::StatusOr<absl::Span<const uint8_t>> At(uint64_t offset,
                                               uint64_t bytes) override {
    view_.reset();
    if (offset > size() || bytes > size() - offset) {
      return absl::DataLossError(
          absl::StrCat("byte ", offset, ": no ", bytes, " bytes of ", size()));
    }
    largest_ = std::max(largest_, bytes);
    view_ = std::make_unique<uint8_t[]>(bytes);
    if (bytes > 0) std::memcpy(view_.get(), bytes_.data() + offset, bytes);
    return absl::Span<const uint8_t>(view_.get(), bytes);
  }
  uint64_t largest() const { return largest_; }  // of the views, in bytes

 private:
  const std::string bytes_;
  std::unique_ptr<uint8_t[]> view_;
  uint64_t largest_ = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_TESTS_SERVER_STORAGE_CHUNKS_COPYING_WINDOW_H_
