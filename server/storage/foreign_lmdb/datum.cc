#include "server/storage/foreign_lmdb/datum.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/storage/wire_reader.h"

namespace millrace::storage {
namespace {

// The numbers of Caffe's fields.
enum : uint32_t {
  kChannels = 1,
  kHeight = 2,
  kWidth = 3,
  kData = 4,
  kLabel = 5,
  kFloatData = 6,
  kEncoded = 7,
};
constexpr size_t kFloatBytes = sizeof(float);

// False: the message has no such field.
bool Take(const WireField& field, Datum* datum) {
  // protobuf keeps the low half of a number.
  const auto number = static_cast<int32_t>(field.varint);
  switch (field.number) {
    case kChannels:
      datum->channels = number;
      return field.type == WireKind::kVarint;
    case kHeight:
      datum->height = number;
      return field.type == WireKind::kVarint;
    case kWidth:
      datum->width = number;
      return field.type == WireKind::kVarint;
    case kData:
      datum->data = field.bytes;
      return field.type == WireKind::kBytes;
    case kLabel:
      datum->label = number;
      return field.type == WireKind::kVarint;
    case kFloatData:
      datum->floats += field.bytes.size() / kFloatBytes;
      return field.type == WireKind::kFixed32 ||
             (field.type == WireKind::kBytes &&
              field.bytes.size() % kFloatBytes == 0);
    case kEncoded:
      datum->encoded = field.varint != 0;
      return field.type == WireKind::kVarint;
    default:
      return false;
  }
}

}  // namespace

absl::Status ParseDatum(absl::Span<const uint8_t> value, Datum* datum) {
  *datum = {};
  WireReader reader(value);
  WireField field;
  const uint8_t* before = value.data();
  while (reader.Next(&field)) {
    if (!Take(field, datum)) {
      return absl::DataLossError(absl::StrCat(
          "byte ", before - value.data(), " of the value: field ", field.number,
          " of wire type ", static_cast<int>(field.type),
          " does not belong to Caffe's Datum"));
    }
    before = reader.position();
  }
  if (reader.ok()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("byte ", reader.position() - value.data(),
                   " of the value: it is no protobuf message from there on"));
}

bool CopyFloats(absl::Span<const uint8_t> value, const Datum& datum,
                uint8_t* out) {
  WireReader reader(value);
  WireField field;
  uint64_t left = datum.floats * kFloatBytes;
  while (reader.Next(&field)) {
    if (field.number != kFloatData) continue;
    if (field.bytes.size() > left) return false;
    // Only of no bytes is there no address.
    if (!field.bytes.empty()) {
      std::memcpy(out, field.bytes.data(), field.bytes.size());
    }
    out += field.bytes.size();
    left -= field.bytes.size();
  }
  return reader.ok() && left == 0;
}

}  // namespace millrace::storage
