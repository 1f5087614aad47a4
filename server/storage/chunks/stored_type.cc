#include "server/storage/chunks/stored_type.h"

#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "proto/dtype.h"

namespace millrace::storage {
namespace {

// A text in a message.
constexpr size_t kMaxQuotedBytes = 40;

struct TypeFacts {
  absl::string_view name;
  uint64_t bytes;
  DType native;  // the same numbers in the same bytes
  DType scalar;
  DType array;
  bool integer;
};

// By the value of StoredType.
constexpr std::array<TypeFacts, kStoredTypes> kFacts = {{
    {"", 0, DTYPE_UNSPECIFIED, DTYPE_UNSPECIFIED, DTYPE_UNSPECIFIED, false},
    {"bool", 1, DTYPE_BOOL, DTYPE_BOOL, DTYPE_BOOL, false},
    {"uint8", 1, DTYPE_UINT8, DTYPE_UINT8, DTYPE_UINT8, true},
    {"int8", 1, DTYPE_INT8, DTYPE_INT32, DTYPE_INT8, true},
    {"uint16", 2, DTYPE_UINT16, DTYPE_INT32, DTYPE_UINT16, true},
    {"int16", 2, DTYPE_INT16, DTYPE_INT32, DTYPE_INT16, true},
    {"uint32", 4, DTYPE_UNSPECIFIED, DTYPE_INT64, DTYPE_INT64, true},
    {"int32", 4, DTYPE_INT32, DTYPE_INT32, DTYPE_INT32, true},
    {"uint64", 8, DTYPE_UNSPECIFIED, DTYPE_INT64, DTYPE_INT64, true},
    {"int64", 8, DTYPE_INT64, DTYPE_INT64, DTYPE_INT64, true},
    {"float16", 2, DTYPE_FLOAT16, DTYPE_FLOAT16, DTYPE_FLOAT16, false},
    {"bfloat16", 2, DTYPE_BFLOAT16, DTYPE_BFLOAT16, DTYPE_BFLOAT16, false},
    {"float32", 4, DTYPE_FLOAT32, DTYPE_FLOAT32, DTYPE_FLOAT32, false},
    {"float64", 8, DTYPE_FLOAT64, DTYPE_FLOAT64, DTYPE_FLOAT64, false},
    {"", 0, DTYPE_UNSPECIFIED, DTYPE_INT64, DTYPE_UNSPECIFIED, true},
    {"", 0, DTYPE_UNSPECIFIED, DTYPE_FLOAT64, DTYPE_UNSPECIFIED, false},
}};

const TypeFacts& FactsOf(StoredType type) {
  return kFacts[static_cast<size_t>(type)];
}

template <typename From, typename To>
absl::Status ConvertIntegers(absl::Span<const uint8_t> values, uint8_t* out) {
  for (size_t at = 0; at < values.size(); at += sizeof(From)) {
    From value;
    std::memcpy(&value, values.data() + at, sizeof(value));
    if constexpr (std::is_same_v<From, uint64_t>) {
      if (value > uint64_t{std::numeric_limits<int64_t>::max()}) {
        return absl::DataLossError(absl::StrCat(
            "the value ", value, " is larger than an int64 can be"));
      }
    }
    const auto converted = static_cast<To>(value);
    std::memcpy(out, &converted, sizeof(converted));
    out += sizeof(converted);
  }
  return absl::OkStatus();
}

template <typename Number, typename Parse>
absl::Status ConvertText(absl::Span<const uint8_t> text, const Parse& parse,
                         absl::string_view kind, uint8_t* out) {
  const absl::string_view digits(reinterpret_cast<const char*>(text.data()),
                                 text.size());
  Number number;
  if (!parse(digits, &number)) {
    return absl::DataLossError(absl::StrCat(
        "the value '", CleanText(digits, kMaxQuotedBytes), "' is no ", kind));
  }
  std::memcpy(out, &number, sizeof(number));
  return absl::OkStatus();
}

template <typename To>
absl::Status ConvertTo(StoredType from, absl::Span<const uint8_t> values,
                       uint8_t* out) {
  switch (from) {
    case StoredType::kUint8:
      return ConvertIntegers<uint8_t, To>(values, out);
    case StoredType::kInt8:
      return ConvertIntegers<int8_t, To>(values, out);
    case StoredType::kUint16:
      return ConvertIntegers<uint16_t, To>(values, out);
    case StoredType::kInt16:
      return ConvertIntegers<int16_t, To>(values, out);
    case StoredType::kUint32:
      return ConvertIntegers<uint32_t, To>(values, out);
    case StoredType::kInt32:
      return ConvertIntegers<int32_t, To>(values, out);
    case StoredType::kUint64:
      return ConvertIntegers<uint64_t, To>(values, out);
    case StoredType::kInt64:
      return ConvertIntegers<int64_t, To>(values, out);
    default:
      return absl::InternalError("numbers that are no integers");
  }
}

}  // namespace

StoredType StoredTypeNamed(absl::string_view name) {
  for (size_t i = 0; i < kFacts.size(); ++i) {
    if (!name.empty() && kFacts[i].name == name) {
      return static_cast<StoredType>(i);
    }
  }
  return StoredType::kBytes;
}

uint64_t StoredBytes(StoredType type) { return FactsOf(type).bytes; }
bool IsInteger(StoredType type) { return FactsOf(type).integer; }
DType ScalarDType(StoredType type) { return FactsOf(type).scalar; }
DType ArrayDType(StoredType type) { return FactsOf(type).array; }

bool IsSame(StoredType from, DType to) {
  return to != DTYPE_UNSPECIFIED && FactsOf(from).native == to;
}

bool CanConvert(StoredType from, DType to) {
  if (IsSame(from, to)) return true;
  if (from == StoredType::kFloatText) return to == DTYPE_FLOAT64;
  if (!IsInteger(from)) return false;
  if (to == DTYPE_INT64) return true;
  // Those whose every value an int32 holds.
  return to == DTYPE_INT32 && StoredBytes(from) > 0 && StoredBytes(from) < 4;
}

absl::Status Convert(StoredType from, absl::Span<const uint8_t> values,
                     DType to, uint8_t* out) {
  if (from == StoredType::kIntText) {
    return ConvertText<int64_t>(
        values,
        [](absl::string_view text, int64_t* number) {
          return absl::SimpleAtoi(text, number);
        },
        "whole number of 64 bits", out);
  }
  if (from == StoredType::kFloatText) {
    return ConvertText<double>(
        values,
        [](absl::string_view text, double* number) {
          return absl::SimpleAtod(text, number);
        },
        "number", out);
  }
  if (IsSame(from, to)) {
    if (!values.empty()) std::memcpy(out, values.data(), values.size());
    return absl::OkStatus();
  }
  return to == DTYPE_INT32 ? ConvertTo<int32_t>(from, values, out)
                           : ConvertTo<int64_t>(from, values, out);
}

absl::Status CheckBools(absl::Span<const uint8_t> values) {
  for (const uint8_t value : values) {
    if (value > 1) {
      return absl::DataLossError(
          absl::StrCat("the value ", value, " is no bool, which is 0 or 1"));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace::storage
