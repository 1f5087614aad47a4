// Little-endian numbers in bytes: of chunk files, and of the encodings of rules
// (FieldRule::Encode()).
//
// Pure functions and plain data. LittleEndianReader belongs to one thread at a
// time and must not outlive the bytes.
//
//   LittleEndianReader reader(bytes);
//   const uint32_t count = reader.U32();
//   if (!reader.ok()) return Damaged();

#ifndef MILLRACE_SERVER_STORAGE_LITTLE_ENDIAN_H_
#define MILLRACE_SERVER_STORAGE_LITTLE_ENDIAN_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace::storage {

static_assert(std::endian::native == std::endian::little);

inline uint32_t LoadU32(const void* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename Number>
void AppendLittleEndian(Number value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}
inline void AppendU32(uint32_t value, std::string* out) {
  AppendLittleEndian(value, out);
}
inline void AppendU64(uint64_t value, std::string* out) {
  AppendLittleEndian(value, out);
}
// The length as u32, then the bytes.
inline void AppendText(absl::string_view text, std::string* out) {
  AppendU32(static_cast<uint32_t>(text.size()), out);
  out->append(text.data(), text.size());
}

// Reads what the functions above append. After the end, it gives zeros and
// empty texts, and ok() is false.
class LittleEndianReader {
 public:
  explicit LittleEndianReader(absl::string_view bytes) : left_(bytes) {}

  uint32_t U32() { return Number<uint32_t>(); }
  uint64_t U64() { return Number<uint64_t>(); }
  absl::string_view Text() {
    const uint32_t size = U32();
    if (size > left_.size()) {
      Fail();
      return {};
    }
    const absl::string_view text = left_.substr(0, size);
    left_.remove_prefix(size);
    return text;
  }

  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && left_.empty(); }

 private:
  template <typename T>
  T Number() {
    T value = 0;
    if (left_.size() < sizeof(value)) {
      Fail();
      return value;
    }
    std::memcpy(&value, left_.data(), sizeof(value));
    left_.remove_prefix(sizeof(value));
    return value;
  }
  void Fail() {
    ok_ = false;
    left_ = {};
  }

  absl::string_view left_;
  bool ok_ = true;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LITTLE_ENDIAN_H_
