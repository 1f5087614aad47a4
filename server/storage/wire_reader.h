// WireReader iterates over the fields of a message in protobuf's wire format
// (https://protobuf.dev/programming-guides/encoding) without a description of
// the message and without copying.
//
// It checks the structure of one message. What the bytes of a field contain
// (another message, packed numbers) is the caller's matter.
//
// Belongs to one thread at a time; views the caller's bytes.
//
//   WireReader reader(message);
//   WireField field;
//   while (reader.Next(&field)) {
//     if (field.Is(1, WireKind::kBytes)) Use(field.bytes);
//   }
//   if (!reader.ok()) return Damaged(reader.position() - message.data());

#ifndef MILLRACE_SERVER_STORAGE_WIRE_READER_H_
#define MILLRACE_SERVER_STORAGE_WIRE_READER_H_

#include <cstdint>

#include "absl/types/span.h"

namespace millrace::storage {

enum class WireKind : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroup = 3,
  kGroupEnd = 4,
  kFixed32 = 5,
};

struct WireField {
  uint32_t number = 0;  // at least 1
  WireKind type = WireKind::kVarint;
  uint64_t varint = 0;  // kVarint
  // kBytes: the content. kFixed32, kFixed64: the 4 or 8 bytes. kGroup: empty.
  absl::Span<const uint8_t> bytes;

  bool Is(uint32_t n, WireKind t) const { return number == n && type == t; }
};

class WireReader {
 public:
  // Depth of groups in each other; protobuf's parsers have the same limit.
  static constexpr int kMaxGroups = 100;

  explicit WireReader(absl::Span<const uint8_t> message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  // The next field. False: the message has ended, or is damaged. Groups are
  // skipped as a whole.
  bool Next(WireField* field);

  // The next number of a sequence of varints (a packed list). False as Next().
  bool NextVarint(uint64_t* value);

  // False: the message is damaged, and position() is where.
  bool ok() const { return ok_; }
  const uint8_t* position() const { return at_; }

 private:
  bool Fail() {
    ok_ = false;
    return false;
  }
  bool ReadVarint(uint64_t* value);
  bool ReadTag(uint32_t* number, WireKind* type);
  // What follows the tag, of every type but groups.
  bool ReadValue(WireField* field);
  // From behind the tag that opens group `number` to behind its end.
  bool SkipGroup(uint32_t number);

  const uint8_t* at_;
  const uint8_t* const end_;
  bool ok_ = true;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_WIRE_READER_H_
