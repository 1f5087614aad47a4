#include "server/storage/chunks/offset_table.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/storage/little_endian.h"

namespace millrace::storage {
namespace {

constexpr uint64_t kNumber = sizeof(uint32_t);
// Offsets that are read at once.
constexpr uint64_t kBlock = 1 << 16;

}  // namespace

uint64_t OffsetTableScanner::table_end() const {
  return kNumber * (records_ + 2);
}

absl::StatusOr<std::unique_ptr<OffsetTableScanner>> OffsetTableScanner::Create(
    ObjectWindow& window, OffsetTableOptions options) {
  const auto damaged = [](const auto&... what) {
    return absl::DataLossError(absl::StrCat(what...));
  };
  const uint64_t size = window.size();
  if (size < 2 * kNumber) {
    return damaged("byte 0: the table of the samples needs at least ",
                   2 * kNumber, " bytes, and the file has ", size);
  }
  auto scanner = std::unique_ptr<OffsetTableScanner>(
      new OffsetTableScanner(window, std::move(options)));
  MR_ASSIGN_OR_RETURN(const auto count, window.At(0, kNumber));
  scanner->records_ = LoadU32(count.data());
  const uint64_t table = scanner->table_end();
  if (table > size) {
    return damaged("byte 0: the table of ", scanner->records_,
                   " samples needs ", table, " bytes, and the file has ", size);
  }
  MR_ASSIGN_OR_RETURN(scanner->offset_, scanner->OffsetAt(0));
  scanner->first_offset_ = scanner->offset_;
  if (scanner->offset_ < table ||
      (!scanner->options_.gap && scanner->offset_ != table) ||
      scanner->offset_ > size) {
    return damaged("byte ", kNumber, ": the first sample begins at byte ",
                   scanner->offset_, ", and the table of the samples ends at ",
                   "byte ", table, " of ", size);
  }
  return scanner;
}

absl::StatusOr<uint64_t> OffsetTableScanner::OffsetAt(uint64_t i) {
  if (i < block_first_ || i >= block_first_ + block_.size()) {
    const uint64_t count = std::min(kBlock, records_ + 1 - i);
    MR_ASSIGN_OR_RETURN(const auto bytes,
                        window_.At(kNumber * (i + 1), kNumber * count));
    block_.resize(count);
    std::memcpy(block_.data(), bytes.data(), kNumber * count);
    block_first_ = i;
  }
  return block_[i - block_first_];
}

absl::StatusOr<std::optional<IndexedRecord>> OffsetTableScanner::Next() {
  if (next_ == records_) {
    if (!ended_) MR_RETURN_IF_ERROR(CheckEnd());
    ended_ = true;
    return std::nullopt;
  }
  MR_ASSIGN_OR_RETURN(const uint64_t end, OffsetAt(next_ + 1));
  const auto damaged = [&](const auto&... what) {
    return absl::DataLossError(
        absl::StrCat("byte ", kNumber * (next_ + 2), ": sample ", next_,
                     " of the file begins at byte ", offset_,
                     " and ends at byte ", end, what...));
  };
  if (end < offset_) return damaged(", before its beginning");
  if (end > window_.size()) {
    return damaged(", and the file has ", window_.size(), " bytes");
  }
  IndexedRecord record;
  record.offset = offset_;
  record.bytes = end - offset_;
  offset_ = end;
  ++next_;
  return record;
}

absl::Status OffsetTableScanner::CheckEnd() {
  const uint64_t size = window_.size();
  if (offset_ == size) return absl::OkStatus();
  const std::string& end = options_.trailer_end;
  if (!end.empty() && size - offset_ >= end.size()) {
    MR_ASSIGN_OR_RETURN(const auto last,
                        window_.At(size - end.size(), end.size()));
    if (std::memcmp(last.data(), end.data(), end.size()) == 0) {
      return absl::OkStatus();
    }
  }
  return absl::DataLossError(
      absl::StrCat("byte ", offset_, ": ", size - offset_,
                   " bytes follow the last of ", records_, " samples"));
}

}  // namespace millrace::storage
