#include "server/storage/tar/npy_header.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";

constexpr std::pair<absl::string_view, DType> kTypes[] = {
    {"|u1", DTYPE_UINT8},   {"|b1", DTYPE_BOOL},    {"<i4", DTYPE_INT32},
    {"<i8", DTYPE_INT64},   {"<f2", DTYPE_FLOAT16}, {"<f4", DTYPE_FLOAT32},
    {"<f8", DTYPE_FLOAT64},
};

// What follows "'KEY':" in a dictionary that Python has written.
bool FindValue(absl::string_view dictionary, absl::string_view key,
               absl::string_view* value) {
  const std::string quoted = absl::StrCat("'", key, "':");
  const size_t at = dictionary.find(quoted);
  if (at == dictionary.npos) return false;
  *value = dictionary.substr(at + quoted.size());
  while (absl::ConsumePrefix(value, " ")) {
  }
  return true;
}

// "(2, 3)", "(2,)" or "()".
bool ParseShape(absl::string_view text, std::vector<int64_t>* shape) {
  if (!absl::ConsumePrefix(&text, "(")) return false;
  const size_t end = text.find(')');
  if (end == text.npos) return false;
  for (const absl::string_view part :
       absl::StrSplit(text.substr(0, end), ',')) {
    if (absl::StripAsciiWhitespace(part).empty()) continue;
    int64_t extent;
    if (!absl::SimpleAtoi(part, &extent) || extent < 0) return false;
    shape->push_back(extent);
  }
  return true;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::Span<const uint8_t> bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()),
                               bytes.size());
  const auto damaged = [] { return absl::DataLossError("is no NumPy array"); };
  if (text.size() < 10 || !absl::StartsWith(text, kMagic)) return damaged();
  // Version 1 has 16 bits for the length of the header, later ones 32.
  const size_t length_bytes = bytes[6] == 1 ? 2 : 4;
  const size_t begin = 8 + length_bytes;
  if (text.size() < begin) return damaged();
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length |= size_t{bytes[8 + i]} << (8 * i);
  }
  if (length > text.size() - begin) return damaged();
  const absl::string_view dictionary = text.substr(begin, length);
  absl::string_view type;
  absl::string_view order;
  absl::string_view shape;
  if (!FindValue(dictionary, "descr", &type) ||
      !FindValue(dictionary, "fortran_order", &order) ||
      !FindValue(dictionary, "shape", &shape)) {
    return damaged();
  }
  NpyHeader header;
  header.data_offset = begin + length;
  if (!ParseShape(shape, &header.shape)) return damaged();
  for (const auto& [name, dtype] : kTypes) {
    if (absl::StartsWith(type, absl::StrCat("'", name, "'"))) {
      header.dtype = dtype;
    }
  }
  if (header.dtype == DTYPE_UNSPECIFIED) {
    return absl::UnimplementedError(absl::StrCat(
        "has elements of type ",
        absl::CHexEscape(type.substr(0, type.find_first_of(",}"))),
        "; supported are uint8, bool, int32, int64, float16, float32 and "
        "float64, little-endian"));
  }
  if (!absl::StartsWith(order, "False")) {
    return absl::UnimplementedError("is in Fortran's order");
  }
  return header;
}

}  // namespace millrace::storage
