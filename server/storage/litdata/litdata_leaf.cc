#include "server/storage/litdata/litdata_leaf.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/storage/chunks/raw_image.h"
#include "server/storage/chunks/stored_type.h"
#include "server/storage/little_endian.h"

namespace millrace::storage {
namespace {

// By litdata's number of a type; kBytes: complex numbers.
constexpr std::array<StoredType, 21> kTorchTypes = {
    StoredType::kFloat32, StoredType::kFloat32,  StoredType::kFloat64,
    StoredType::kFloat64, StoredType::kBytes,    StoredType::kBytes,
    StoredType::kBytes,   StoredType::kBytes,    StoredType::kFloat16,
    StoredType::kFloat16, StoredType::kBfloat16, StoredType::kUint8,
    StoredType::kInt8,    StoredType::kInt16,    StoredType::kInt16,
    StoredType::kInt32,   StoredType::kInt32,    StoredType::kInt64,
    StoredType::kInt64,   StoredType::kBool,     StoredType::kUint16,
};
// Complex numbers, objects, texts and void follow, with a bool between them.
constexpr std::array<StoredType, 14> kNumpyTypes = {
    StoredType::kInt8,    StoredType::kInt16,   StoredType::kInt32,
    StoredType::kInt64,   StoredType::kUint8,   StoredType::kUint16,
    StoredType::kUint32,  StoredType::kUint64,  StoredType::kFloat16,
    StoredType::kFloat32, StoredType::kFloat64, StoredType::kBytes,
    StoredType::kBytes,   StoredType::kBool,
};

StoredType TypeOf(absl::Span<const StoredType> types, uint64_t code) {
  return code < types.size() ? types[code] : StoredType::kBytes;
}

absl::StatusOr<std::optional<ArrayHeader>> ParseHeader(
    absl::Span<const StoredType> types, bool big_endian,
    absl::Span<const uint8_t> value) {
  constexpr size_t kNumber = sizeof(uint32_t);
  const auto number = [&](size_t i) {
    const uint32_t stored = LoadU32(value.data() + i * kNumber);
    return big_endian ? __builtin_bswap32(stored) : stored;
  };
  if (value.size() < 2 * kNumber ||
      number(1) > (value.size() - 2 * kNumber) / kNumber) {
    return absl::DataLossError(absl::StrCat("the array has ", value.size(),
                                            " bytes, and its header has more"));
  }
  ArrayHeader header;
  header.stored = TypeOf(types, number(0));
  if (header.stored == StoredType::kBytes) return std::nullopt;
  const size_t dimensions = number(1);
  for (size_t i = 0; i < dimensions; ++i) {
    header.shape.push_back(number(2 + i));
  }
  header.bytes = (2 + dimensions) * kNumber;
  return header;
}

// An array of one dimension without a header.
void DraftPlainArray(absl::Span<const StoredType> types, absl::string_view code,
                     ColumnDraft* draft) {
  uint32_t number = 0;
  if (!absl::SimpleAtoi(code, &number)) return;
  draft->stored = TypeOf(types, number);
  if (draft->stored != StoredType::kBytes) {
    draft->kind = ColumnKind::kPlainArray;
  }
}

}  // namespace

ColumnDraft DraftOfLeaf(const std::string& name, bool unnamed,
                        const std::string& format) {
  // "image:png": serializer and a detail.
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(format, absl::MaxSplits(':', 1));
  const absl::string_view serializer = parts.first;
  ColumnDraft draft = BytesColumn(name);
  draft.unnamed = unnamed;
  if (serializer == "bytes") return draft;
  draft.kind = ColumnKind::kBytes;
  const auto scalar = [&draft](StoredType stored) {
    draft.kind = ColumnKind::kScalar;
    draft.stored = stored;
  };
  const auto array = [&draft](ParseArrayHeader parse) {
    draft.kind = ColumnKind::kHeaderArray;
    draft.parse_header = std::move(parse);
  };
  if (serializer == "jpeg" ||
      ((serializer == "image" || serializer == "file") &&
       IsImageSuffix(parts.second))) {
    draft.kind = ColumnKind::kImage;
  } else if (serializer == "int") {
    scalar(StoredType::kInt64);
  } else if (serializer == "float") {
    scalar(StoredType::kFloat64);
  } else if (serializer == "bool" || serializer == "boolean") {
    scalar(StoredType::kBool);
  } else if (serializer == "pil") {
    array(ParseRawImage);
  } else if (serializer == "tensor") {
    array(ParseTorchArray);
  } else if (serializer == "numpy") {
    array(ParseNumpyArray);
  } else if (serializer == "no_header_tensor") {
    DraftPlainArray(kTorchTypes, parts.second, &draft);
  } else if (serializer == "no_header_numpy") {
    DraftPlainArray(kNumpyTypes, parts.second, &draft);
  }
  return draft;
}

absl::StatusOr<std::optional<ArrayHeader>> ParseTorchArray(
    absl::Span<const uint8_t> value) {
  return ParseHeader(kTorchTypes, true, value);
}

absl::StatusOr<std::optional<ArrayHeader>> ParseNumpyArray(
    absl::Span<const uint8_t> value) {
  return ParseHeader(kNumpyTypes, false, value);
}

}  // namespace millrace::storage
