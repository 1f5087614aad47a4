#include "server/storage/mds/mds_encoding.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "server/storage/chunks/raw_image.h"
#include "server/storage/chunks/stored_type.h"

namespace millrace::storage {
namespace {

constexpr size_t kMaxQuotedBytes = 80;
constexpr absl::string_view kArrayName = "ndarray";

// The number of a type in the value of an array.
StoredType TypeOfCode(uint8_t code) {
  switch (code) {
    case 8:
      return StoredType::kUint8;
    case 9:
      return StoredType::kInt8;
    case 16:
      return StoredType::kUint16;
    case 17:
      return StoredType::kInt16;
    case 18:
      return StoredType::kFloat16;
    case 32:
      return StoredType::kUint32;
    case 33:
      return StoredType::kInt32;
    case 34:
      return StoredType::kFloat32;
    case 64:
      return StoredType::kUint64;
    case 65:
      return StoredType::kInt64;
    case 66:
      return StoredType::kFloat64;
    default:
      return StoredType::kBytes;
  }
}

// "ndarray", "ndarray:DTYPE" and "ndarray:DTYPE:N,M". False: none of them.
bool DraftArray(absl::string_view encoding, ColumnDraft* draft) {
  const std::vector<absl::string_view> parts = absl::StrSplit(encoding, ':');
  if (parts.front() != kArrayName || parts.size() > 3) return false;
  draft->stored = StoredType::kBytes;
  if (parts.size() > 1) {
    draft->stored = StoredTypeNamed(parts[1]);
    if (draft->stored == StoredType::kBytes) return false;
  }
  if (parts.size() < 3) {
    draft->kind = ColumnKind::kHeaderArray;
    draft->parse_header = [stored =
                               draft->stored](absl::Span<const uint8_t> value) {
      return ParseMdsArray(stored, value);
    };
    return true;
  }
  draft->kind = ColumnKind::kArray;
  for (const absl::string_view extent : absl::StrSplit(parts[2], ',')) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(extent, &number) || number < 1) return false;
    draft->shape.push_back(number);
  }
  return true;
}

// Bytes of each value by the encoding; 0: they vary.
uint64_t FixedBytes(const ColumnDraft& draft) {
  if (draft.kind == ColumnKind::kScalar) return StoredBytes(draft.stored);
  if (draft.kind != ColumnKind::kArray) return 0;
  uint64_t bytes = StoredBytes(draft.stored);
  for (const int64_t extent : draft.shape) {
    // More than a sample can have.
    if (bytes > UINT32_MAX / static_cast<uint64_t>(extent)) return UINT64_MAX;
    bytes *= extent;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<ColumnDraft> DraftOfMdsColumn(const std::string& name,
                                             const std::string& encoding,
                                             uint64_t bytes) {
  ColumnDraft draft = BytesColumn(name);
  const StoredType number =
      StoredTypeNamed(encoding == "int" ? "int64" : encoding);
  if (encoding == "jpeg" || encoding == "png") {
    draft.kind = ColumnKind::kImage;
  } else if (encoding == "pil") {
    draft.kind = ColumnKind::kHeaderArray;
    draft.parse_header = ParseRawImage;
  } else if (number != StoredType::kBytes) {
    draft.kind = ColumnKind::kScalar;
    draft.stored = number;
  } else if (encoding == "str_int" || encoding == "str_float") {
    draft.kind = ColumnKind::kScalar;
    draft.stored =
        encoding == "str_int" ? StoredType::kIntText : StoredType::kFloatText;
  } else if (absl::string_view(encoding).substr(0, kArrayName.size()) ==
             kArrayName) {
    if (!DraftArray(encoding, &draft)) {
      return absl::DataLossError(absl::StrCat(
          "column '", CleanText(name, kMaxQuotedBytes), "' has the encoding '",
          CleanText(encoding, kMaxQuotedBytes),
          "', which is no type and shape of an array"));
    }
  } else if (encoding != "bytes") {
    draft.kind = ColumnKind::kBytes;
  }
  if (draft.kind == ColumnKind::kBytes) {
    draft.bytes = bytes;
    return draft;
  }
  draft.bytes = FixedBytes(draft);
  if (draft.bytes != bytes) {
    return absl::DataLossError(absl::StrCat(
        "column '", CleanText(name, kMaxQuotedBytes), "' has ",
        bytes == 0 ? "values of varying sizes" : absl::StrCat(bytes, " bytes"),
        " by column_sizes, and by its encoding '",
        CleanText(encoding, kMaxQuotedBytes), "' ",
        draft.bytes == 0 ? "the sizes vary"
                         : absl::StrCat("it has ", draft.bytes)));
  }
  return draft;
}

absl::StatusOr<std::optional<ArrayHeader>> ParseMdsArray(
    StoredType stored, absl::Span<const uint8_t> value) {
  const auto cut_off = [&] {
    return absl::DataLossError(absl::StrCat("the array has ", value.size(),
                                            " bytes, and its header has more"));
  };
  ArrayHeader header;
  header.stored = stored;
  if (stored == StoredType::kBytes) {
    if (value.empty()) return cut_off();
    header.stored = TypeOfCode(value[0]);
    header.bytes = 1;
    if (header.stored == StoredType::kBytes) return std::nullopt;
  }
  if (value.size() <= header.bytes) return cut_off();
  const uint8_t form = value[header.bytes++];
  const size_t dimensions = form >> 2;
  const size_t width = size_t{1} << (form & 3);  // of an extent, in bytes
  if (value.size() - header.bytes < dimensions * width) return cut_off();
  for (size_t i = 0; i < dimensions; ++i) {
    uint64_t extent = 0;
    std::memcpy(&extent, value.data() + header.bytes, width);
    header.bytes += width;
    if (extent > INT64_MAX) return std::nullopt;
    header.shape.push_back(static_cast<int64_t>(extent));
  }
  return header;
}

}  // namespace millrace::storage
