#include "server/storage/hdf5/heap_value.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::storage {
namespace {

constexpr size_t kHeaderBytes = 16;  // of a collection, and of an object
// Of one read while objects are passed. Most values are the first object of
// their collection, or lie in one of 4 KiB.
constexpr size_t kWindowBytes = 4096;

template <typename T>
T Number(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// The bytes of one collection, read in windows.
class Collection {
 public:
  Collection(uint64_t offset, uint64_t end, LoadBytes load)
      : offset_(offset), end_(end), load_(load) {}

  // 16 bytes at `at` (from the beginning of the collection), which lie before
  // the end.
  absl::StatusOr<const uint8_t*> Header(uint64_t at) {
    if (at < start_ || at + kHeaderBytes > start_ + held_) {
      start_ = at;
      held_ = std::min<uint64_t>(kWindowBytes, end_ - offset_ - at);
      MR_RETURN_IF_ERROR(
          load_(offset_ + at, absl::MakeSpan(window_.data(), held_)));
    }
    return window_.data() + (at - start_);
  }

 private:
  const uint64_t offset_;
  const uint64_t end_;  // of the file
  const LoadBytes load_;
  std::array<uint8_t, kWindowBytes> window_;
  uint64_t start_ = 0;
  uint64_t held_ = 0;
};

}  // namespace

HeapReference ParseHeapReference(absl::Span<const uint8_t> bytes) {
  return {.elements = Number<uint32_t>(bytes.data()),
          .address = Number<uint64_t>(bytes.data() + 4),
          .object = Number<uint32_t>(bytes.data() + 12)};
}

absl::StatusOr<uint64_t> FindHeapValue(const HeapReference& reference,
                                       uint64_t bytes, uint64_t user_block,
                                       uint64_t file_bytes, LoadBytes load) {
  const auto damaged = [&](const auto&... what) {
    return absl::DataLossError(absl::StrCat(
        "the heap of values of variable length is damaged at byte ",
        reference.address, " behind the user block: ", what...));
  };
  uint64_t offset;
  if (__builtin_add_overflow(reference.address, user_block, &offset) ||
      offset > file_bytes || file_bytes - offset < kHeaderBytes) {
    return damaged("the file ends before it");
  }
  Collection collection(offset, file_bytes, load);
  MR_ASSIGN_OR_RETURN(const uint8_t* const head, collection.Header(0));
  if (std::memcmp(head, "GCOL\1", 5) != 0) return damaged("no collection");
  const uint64_t size = Number<uint64_t>(head + 8);
  if (size > file_bytes - offset) {
    return damaged("the collection ends behind the file");
  }
  uint64_t at = kHeaderBytes;
  while (at <= size && size - at >= kHeaderBytes) {
    MR_ASSIGN_OR_RETURN(const uint8_t* const object, collection.Header(at));
    const auto number = Number<uint16_t>(object);
    const auto length = Number<uint64_t>(object + 8);
    if (number == 0) break;  // free space to the end
    if (length > size - at - kHeaderBytes) {
      return damaged("an object ends behind its collection");
    }
    if (number == reference.object) {
      if (length < bytes) {
        return damaged("object ", number, " has ", length, " bytes, not ",
                       bytes);
      }
      return offset + at + kHeaderBytes;
    }
    at += kHeaderBytes + (length + 7) / 8 * 8;
  }
  return damaged("there is no object ", reference.object);
}

}  // namespace millrace::storage
