#include "server/storage/lmdb/sample_codec.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/storage/page_load.h"

namespace millrace::storage {
namespace {

using Length = uint32_t;

absl::Status WrongSize(uint64_t size) {
  return absl::DataLossError(
      absl::StrCat("the stored sample is damaged: its ", size,
                   " bytes do not match the fields of the schema"));
}

}  // namespace

SampleCodec::SampleCodec(const SampleCheck& check) : fields_(check.fields()) {
  for (int i = 0; i < fields_; ++i) {
    if (check.fixed_bytes(i) < 0) {
      variable_.push_back(i);
      continue;
    }
    const uint64_t bytes = check.fixed_bytes(i);
    fixed_.push_back({.place = i, .offset = fixed_bytes_, .bytes = bytes});
    fixed_bytes_ += bytes;
  }
}

uint64_t SampleCodec::EncodedBytes(
    absl::Span<const absl::Span<const uint8_t>> fields) const {
  uint64_t bytes = fixed_bytes_;
  for (const int i : variable_) bytes += sizeof(Length) + fields[i].size();
  return bytes;
}

void SampleCodec::Encode(absl::Span<const absl::Span<const uint8_t>> fields,
                         uint8_t* out) const {
  const auto put = [&out](const void* data, size_t bytes) {
    if (bytes != 0) std::memcpy(out, data, bytes);
    out += bytes;
  };
  for (const FixedField& field : fixed_) {
    put(fields[field.place].data(), field.bytes);
  }
  for (const int i : variable_) {
    const Length length = static_cast<Length>(fields[i].size());
    put(&length, sizeof(length));
    put(fields[i].data(), length);
  }
}

absl::Status SampleCodec::Decode(
    absl::Span<const uint8_t> value,
    absl::Span<absl::Span<const uint8_t>> views) const {
  if (value.size() < fixed_bytes_) return WrongSize(value.size());
  for (const FixedField& field : fixed_) {
    views[field.place] = {value.data() + field.offset, field.bytes};
  }
  absl::Span<const uint8_t> rest = value.subspan(fixed_bytes_);
  for (const int i : variable_) {
    if (rest.size() < sizeof(Length)) return WrongSize(value.size());
    const Length length = PageLoad<Length>(rest.data());
    rest.remove_prefix(sizeof(length));
    if (rest.size() < length) return WrongSize(value.size());
    views[i] = rest.first(length);
    rest.remove_prefix(length);
  }
  return rest.empty() ? absl::OkStatus() : WrongSize(value.size());
}

}  // namespace millrace::storage
