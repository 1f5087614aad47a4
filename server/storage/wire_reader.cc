#include "server/storage/wire_reader.h"

#include <array>
#include <cstddef>

namespace millrace::storage {
namespace {

constexpr int kMaxVarintBytes = 10;
constexpr int kMaxTagBytes = 5;

}  // namespace

bool WireReader::ReadVarint(uint64_t* value) {
  uint64_t read = 0;
  const uint8_t* at = at_;
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    if (at == end_) return Fail();
    const uint8_t byte = *at++;
    read |= static_cast<uint64_t>(byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      at_ = at;
      *value = read;
      return true;
    }
  }
  return Fail();
}

bool WireReader::NextVarint(uint64_t* value) {
  if (!ok_ || at_ == end_) return false;
  return ReadVarint(value);
}

bool WireReader::ReadTag(uint32_t* number, WireKind* type) {
  const uint8_t* const start = at_;
  uint64_t tag;
  if (!ReadVarint(&tag)) return false;
  // Of a longer number, protobuf keeps 32 bits.
  *number = static_cast<uint32_t>(tag) >> 3;
  *type = static_cast<WireKind>(tag & 7);
  if (at_ - start > kMaxTagBytes || *number == 0 ||
      (tag & 7) > static_cast<uint64_t>(WireKind::kFixed32)) {
    at_ = start;
    return Fail();
  }
  return true;
}

bool WireReader::ReadValue(WireField* field) {
  uint64_t bytes = 0;
  const uint8_t* const start = at_;
  switch (field->type) {
    case WireKind::kVarint:
      return ReadVarint(&field->varint);
    case WireKind::kFixed64:
      bytes = 8;
      break;
    case WireKind::kFixed32:
      bytes = 4;
      break;
    case WireKind::kBytes:
      if (!ReadVarint(&bytes)) return false;
      break;
    case WireKind::kGroup:
    case WireKind::kGroupEnd:
      return Fail();
  }
  if (bytes > static_cast<uint64_t>(end_ - at_)) {
    at_ = start;
    return Fail();
  }
  field->bytes = {at_, static_cast<size_t>(bytes)};
  at_ += bytes;
  return true;
}

bool WireReader::SkipGroup(uint32_t number) {
  std::array<uint32_t, kMaxGroups> open;
  int depth = 0;
  open[depth++] = number;
  while (depth > 0) {
    if (at_ == end_) return Fail();
    WireField field;
    if (!ReadTag(&field.number, &field.type)) return false;
    if (field.type == WireKind::kGroup) {
      if (depth == kMaxGroups) return Fail();
      open[depth++] = field.number;
    } else if (field.type == WireKind::kGroupEnd) {
      if (open[--depth] != field.number) return Fail();
    } else if (!ReadValue(&field)) {
      return false;
    }
  }
  return true;
}

bool WireReader::Next(WireField* field) {
  if (!ok_ || at_ == end_) return false;
  field->bytes = {};
  if (!ReadTag(&field->number, &field->type)) return false;
  if (field->type == WireKind::kGroup) return SkipGroup(field->number);
  return ReadValue(field);
}

}  // namespace millrace::storage
