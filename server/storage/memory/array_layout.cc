#include "server/storage/memory/array_layout.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {
namespace {

constexpr uint32_t kMaxSchemaBytes = 1 << 20;  // of class names, mostly
constexpr int kMaxArrays = 1024;
constexpr size_t kMaxQuotedBytes = 300;

absl::Status Refused(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the file of the arrays ", CleanText(what, kMaxQuotedBytes),
                   ": use the client and the server of the same release"));
}

template <typename T>
T Number(absl::Span<const uint8_t> file, size_t at) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, file.data() + at, sizeof(value));
  return value;
}

uint64_t Aligned(uint64_t offset) {
  return (offset + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
}

}  // namespace

absl::StatusOr<ArrayLayout> ParseArrayLayout(absl::Span<const uint8_t> file) {
  if (file.size() < kArrayHeadBytes ||
      std::memcmp(file.data(), kArrayLetters.data(), kArrayLetters.size()) !=
          0) {
    return Refused(absl::StrCat("does not begin with ", kArrayLetters));
  }
  const uint32_t version = Number<uint32_t>(file, 8);
  const uint32_t schema_bytes = Number<uint32_t>(file, 12);
  const uint64_t rows = Number<uint64_t>(file, 16);
  if (version != kArrayVersion) {
    return Refused(absl::StrCat("has version ", version,
                                ", and this server reads version ",
                                kArrayVersion));
  }
  if (schema_bytes > kMaxSchemaBytes ||
      schema_bytes > file.size() - kArrayHeadBytes) {
    return Refused(absl::StrCat("has a schema of ", schema_bytes, " bytes"));
  }
  ArrayLayout layout;
  if (!layout.schema.ParseFromArray(file.data() + kArrayHeadBytes,
                                    static_cast<int>(schema_bytes))) {
    return Refused("has a schema that cannot be parsed");
  }
  if (layout.schema.fields_size() > kMaxArrays) {
    return Refused(absl::StrCat("has ", layout.schema.fields_size(),
                                " arrays, and the maximum is ", kMaxArrays));
  }
  const absl::StatusOr<SampleCheck> check = SampleCheck::Create(layout.schema);
  if (!check.ok()) {
    return Refused(
        absl::StrCat("has a schema in which ", check.status().message()));
  }
  for (const Field& field : layout.schema.fields()) {
    if (field.kind() != FIELD_KIND_TENSOR) {
      return Refused(
          absl::StrCat("has a field '", field.name(), "' that is no tensor"));
    }
  }
  if (rows == 0) return Refused("has no rows");
  uint64_t end = kArrayHeadBytes + schema_bytes;
  for (int i = 0; i < check->fields(); ++i) {
    // At least 1: SampleCheck refuses dimensions of 0.
    const uint64_t row_bytes = static_cast<uint64_t>(check->fixed_bytes(i));
    const uint64_t offset = Aligned(end);
    if (offset > file.size() || rows > (file.size() - offset) / row_bytes) {
      return Refused(absl::StrCat("has ", file.size(), " bytes, too few for ",
                                  rows, " rows of '",
                                  layout.schema.fields(i).name(), "'"));
    }
    layout.arrays.push_back({.offset = offset, .row_bytes = row_bytes});
    end = offset + rows * row_bytes;
  }
  if (end != file.size()) {
    return Refused(
        absl::StrCat("has ", file.size(), " bytes instead of ", end));
  }
  // `rows` is not above the size of a file, so it fits.
  layout.rows = static_cast<int64_t>(rows);
  return layout;
}

}  // namespace millrace::storage
