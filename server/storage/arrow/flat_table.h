// FlatTable reads tables of a FlatBuffer without trusting one byte of it: each
// access is checked against the end of the bytes, and what lies outside of them
// is absent. Only what the messages of Arrow need: numbers, tables, vectors of
// numbers and structs.
//
// It verifies no whole buffer and follows no loop: each access goes one step.
//
// Plain data; does not own the bytes, which must not change meanwhile.
//
//   const auto message = FlatTable::Root(bytes);
//   if (!message.has_value()) return Damaged();
//   const int64_t body = message->Number<int64_t>(3, 0);

#ifndef MILLRACE_SERVER_STORAGE_ARROW_FLAT_TABLE_H_
#define MILLRACE_SERVER_STORAGE_ARROW_FLAT_TABLE_H_

#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/types/span.h"

namespace millrace::storage {

class FlatTable {
 public:
  // The table that the buffer begins with.
  static std::optional<FlatTable> Root(absl::Span<const uint8_t> bytes) {
    const std::optional<uint32_t> at = Load<uint32_t>(bytes, 0);
    return at.has_value() ? At(bytes, *at) : std::nullopt;
  }

  // Number in `slot`; `absent` where the table has none.
  template <typename T>
  T Number(int slot, T absent) const {
    const std::optional<uint64_t> at = Field(slot);
    if (!at.has_value()) return absent;
    return Load<T>(bytes_, *at).value_or(absent);
  }

  std::optional<FlatTable> Table(int slot) const {
    const std::optional<uint64_t> at = Field(slot);
    if (!at.has_value()) return std::nullopt;
    const std::optional<uint32_t> offset = Load<uint32_t>(bytes_, *at);
    return offset.has_value() ? At(bytes_, *at + *offset) : std::nullopt;
  }

  // The elements, of `width` bytes each. Absent: there is no such vector, or it
  // ends behind the bytes. `count`: number of elements.
  std::optional<absl::Span<const uint8_t>> Vector(int slot, uint64_t width,
                                                  uint64_t* count) const {
    const std::optional<uint64_t> at = Field(slot);
    if (!at.has_value()) return std::nullopt;
    const std::optional<uint32_t> offset = Load<uint32_t>(bytes_, *at);
    if (!offset.has_value()) return std::nullopt;
    const uint64_t begin = *at + *offset;
    const std::optional<uint32_t> length = Load<uint32_t>(bytes_, begin);
    if (!length.has_value()) return std::nullopt;
    const uint64_t bytes = *length * width;  // below 2^32 * 2^6
    if (bytes > bytes_.size() - begin - sizeof(uint32_t)) return std::nullopt;
    *count = *length;
    return bytes_.subspan(begin + sizeof(uint32_t), bytes);
  }

 private:
  FlatTable(absl::Span<const uint8_t> bytes, uint64_t at, uint64_t vtable,
            uint16_t vtable_bytes)
      : bytes_(bytes), at_(at), vtable_(vtable), vtable_bytes_(vtable_bytes) {}

  template <typename T>
  static std::optional<T> Load(absl::Span<const uint8_t> bytes, uint64_t at) {
    if (at > bytes.size() || sizeof(T) > bytes.size() - at) return std::nullopt;
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
  }

  static std::optional<FlatTable> At(absl::Span<const uint8_t> bytes,
                                     uint64_t at) {
    const std::optional<int32_t> back = Load<int32_t>(bytes, at);
    if (!back.has_value()) return std::nullopt;
    const int64_t vtable = static_cast<int64_t>(at) - *back;
    if (vtable < 0) return std::nullopt;
    const std::optional<uint16_t> size =
        Load<uint16_t>(bytes, static_cast<uint64_t>(vtable));
    if (!size.has_value()) return std::nullopt;
    return FlatTable(bytes, at, static_cast<uint64_t>(vtable), *size);
  }

  // Where the value of `slot` lies; absent: it has none.
  std::optional<uint64_t> Field(int slot) const {
    const uint64_t entry = sizeof(uint16_t) * (2 + static_cast<uint64_t>(slot));
    if (entry + sizeof(uint16_t) > vtable_bytes_) return std::nullopt;
    const std::optional<uint16_t> offset =
        Load<uint16_t>(bytes_, vtable_ + entry);
    if (!offset.has_value() || *offset == 0) return std::nullopt;
    return at_ + *offset;
  }

  absl::Span<const uint8_t> bytes_;
  uint64_t at_;      // in bytes_
  uint64_t vtable_;  // in bytes_
  uint16_t vtable_bytes_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_ARROW_FLAT_TABLE_H_
