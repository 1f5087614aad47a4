#include "server/storage/extents/reader_window.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::storage {

absl::StatusOr<absl::Span<const uint8_t>> ReaderWindow::At(uint64_t offset,
                                                           uint64_t bytes) {
  if (offset > size() || bytes > size() - offset) {
    return absl::DataLossError(
        absl::StrCat("byte ", offset, ": the object ends at byte ", size(),
                     ", before the next ", bytes, " bytes"));
  }
  if (bytes > UINT32_MAX) {
    return absl::ResourceExhaustedError(
        absl::StrCat("byte ", offset, ": a record of ", bytes,
                     " bytes is too large; the maximum is ", UINT32_MAX));
  }
  const uint64_t end = start_ + held_;
  if (offset >= start_ && offset + bytes <= end) {
    used_to_ = std::max(used_to_, offset + bytes);
    return absl::MakeConstSpan(buffer_.data() + (offset - start_), bytes);
  }
  const bool follows = held_ > 0 && offset >= start_ && offset <= end;
  if (follows) {
    ahead_ = std::min(2 * ahead_, kAheadBytes);
  } else if (offset >= start_ && offset - start_ <= held_ + kJumpBytes) {
    ahead_ = kJumpBytes;
  } else {
    ahead_ = std::min(used_to_ - used_from_, kJumpBytes);
    used_from_ = offset;
    used_to_ = offset;
  }
  used_to_ = std::max(used_to_, offset + bytes);
  const uint64_t kept = follows ? end - offset : 0;
  const uint64_t all = std::max(bytes, std::min(ahead_, size() - offset));
  held_ = 0;  // an error leaves nothing behind
  if (kept > 0) {
    std::memmove(buffer_.data(), buffer_.data() + (offset - start_), kept);
  }
  if (all > buffer_.size()) buffer_.resize(all);
  start_ = offset;
  MR_RETURN_IF_ERROR(objects_->ReadUnchecked(
      name_, identity_, offset + kept,
      absl::MakeSpan(buffer_.data() + kept, all - kept)));
  held_ = all;
  return absl::MakeConstSpan(buffer_.data(), bytes);
}

}  // namespace millrace::storage
