// The types of numbers as chunk files store them, and the types of fields that
// they become. Small integers are widened, as in Parquet files
// (docs/formats.md): a scalar of 8 or 16 bits to int32, uint32 to int64.
//
// Pure functions, safe from any thread.
//
//   if (!IsSame(StoredType::kUint16, DTYPE_INT32)) {
//     MR_RETURN_IF_ERROR(Convert(StoredType::kUint16, value, DTYPE_INT32, to));
//   }

#ifndef MILLRACE_SERVER_STORAGE_CHUNKS_STORED_TYPE_H_
#define MILLRACE_SERVER_STORAGE_CHUNKS_STORED_TYPE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace::storage {

// The values are stored in indexes (ColumnRule::Encode).
enum class StoredType : uint8_t {
  kBytes = 0,  // no number
  kBool = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kUint32 = 6,
  kInt32 = 7,
  kUint64 = 8,
  kInt64 = 9,
  kFloat16 = 10,
  kBfloat16 = 11,
  kFloat32 = 12,
  kFloat64 = 13,
  kIntText = 14,    // "-17"
  kFloatText = 15,  // "1.5", as Python prints it
};
inline constexpr int kStoredTypes = 16;

// "uint8", "float32", ...: the name in NumPy. kBytes: there is no such number.
StoredType StoredTypeNamed(absl::string_view name);

// Bytes of one number; 0: kBytes and texts, whose length varies.
uint64_t StoredBytes(StoredType type);

bool IsInteger(StoredType type);  // also kIntText

// The type of the field that a scalar, or an array, of such numbers becomes;
// unspecified: none (kBytes, and arrays of texts).
DType ScalarDType(StoredType type);
DType ArrayDType(StoredType type);

// Whether stored numbers are those of the field, byte for byte.
bool IsSame(StoredType from, DType to);

// Whether Convert() can make `to` of `from`.
bool CanConvert(StoredType from, DType to);

// Writes the numbers of `from` as `to`. The size of `from` is that of the
// numbers; a text is one number. DataLoss: a number that `to` cannot hold; the
// message begins with "the value".
absl::Status Convert(StoredType from, absl::Span<const uint8_t> values,
                     DType to, uint8_t* out);

// DataLoss: a byte of `values` is neither 0 nor 1.
absl::Status CheckBools(absl::Span<const uint8_t> values);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CHUNKS_STORED_TYPE_H_
