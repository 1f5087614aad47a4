// CompactReader reads structs in Thrift's compact protocol, the metadata of
// Parquet. Past the end, and past what makes no sense, it gives zeros and is
// not ok().
//
// Plain; belongs to one thread. What it reads must outlive it.
//
//   CompactReader reader(bytes);
//   int64_t id = 0;
//   uint8_t type;
//   while (reader.NextField(&id, &type)) reader.Skip(type);

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_COMPACT_READER_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_COMPACT_READER_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace millrace::storage {

class CompactReader {
 public:
  enum Type : uint8_t {
    kTrue = 1,
    kFalse = 2,
    kByte = 3,
    kI16 = 4,
    kI32 = 5,
    kI64 = 6,
    kDouble = 7,
    kBinary = 8,
    kList = 9,
    kSet = 10,
    kMap = 11,
    kStruct = 12,
  };

  explicit CompactReader(absl::string_view in) : in_(in) {}

  bool ok() const { return ok_; }
  // What is not read yet.
  absl::string_view rest() const { return in_; }

  // The next field of a struct; false at its end. `*id` is that of the field
  // before, 0 at first.
  bool NextField(int64_t* id, uint8_t* type) {
    const uint8_t head = Byte();
    if (!ok_ || head == 0) return false;
    *type = head & 0x0F;
    *id = head >> 4 == 0 ? Int() : *id + (head >> 4);
    ok_ = ok_ && *id >= 0 && *id <= kMaxFieldId;
    return ok_;
  }

  // The number of elements of a list.
  uint64_t ListHead(uint8_t* type) {
    const uint8_t head = Byte();
    *type = head & 0x0F;
    return head >> 4 == 15 ? Varint() : head >> 4;
  }

  int64_t Int() {
    const uint64_t zigzag = Varint();
    return static_cast<int64_t>(zigzag >> 1) ^
           -static_cast<int64_t>(zigzag & 1);
  }

  // The bytes of a kBinary.
  absl::string_view Binary() {
    const uint64_t bytes = Varint();
    const absl::string_view value = in_.substr(0, bytes);
    Drop(bytes);
    return ok_ ? value : absl::string_view();
  }

  // An element of a list or map, where a truth value is a byte.
  void SkipElement(uint8_t type, int depth = 0) {
    if (type == kTrue || type == kFalse) {
      Drop(1);
    } else {
      Skip(type, depth + 1);
    }
  }

  // A value of a field.
  void Skip(uint8_t type, int depth = 0) {
    if (depth == kMaxDepth) ok_ = false;
    if (!ok_) return;
    switch (type) {
      case kTrue:
      case kFalse:
        return;  // the type is the value
      case kByte:
        Drop(1);
        return;
      case kI16:
      case kI32:
      case kI64:
        Varint();
        return;
      case kDouble:
        Drop(8);
        return;
      case kBinary:
        Drop(Varint());
        return;
      case kList:
      case kSet: {
        uint8_t element;
        const uint64_t count = ListHead(&element);
        for (uint64_t i = 0; i < count && ok_; ++i) {
          SkipElement(element, depth);
        }
        return;
      }
      case kMap: {
        const uint64_t count = Varint();
        const uint8_t types = count == 0 ? 0 : Byte();
        for (uint64_t i = 0; i < count && ok_; ++i) {
          SkipElement(types >> 4, depth);
          SkipElement(types & 0x0F, depth);
        }
        return;
      }
      case kStruct: {
        int64_t id = 0;
        uint8_t field;
        while (NextField(&id, &field)) Skip(field, depth + 1);
        return;
      }
      default:
        ok_ = false;
    }
  }

 private:
  // Deeper structs are no metadata of Parquet.
  static constexpr int kMaxDepth = 16;
  static constexpr int64_t kMaxFieldId = 32767;

  uint8_t Byte() {
    if (in_.empty()) ok_ = false;
    if (!ok_) return 0;
    const auto byte = static_cast<uint8_t>(in_.front());
    in_.remove_prefix(1);
    return byte;
  }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      value |= uint64_t{byte & 0x7Fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    ok_ = false;
    return 0;
  }

  void Drop(uint64_t bytes) {
    if (bytes > in_.size()) ok_ = false;
    if (ok_) in_.remove_prefix(bytes);
  }

  absl::string_view in_;
  bool ok_ = true;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_COMPACT_READER_H_
