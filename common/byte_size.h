// Sizes in bytes as people write and read them.
//
//   ParseByteSize("1.5GiB")  -> 1610612736
//   FormatByteSize(1610612736) -> "1.5 GiB"
//   FormatExactByteSize(6291467) -> "6 MiB (6291467 bytes)"

#ifndef MILLRACE_COMMON_BYTE_SIZE_H_
#define MILLRACE_COMMON_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// A number and a unit, with or without a space: B, KiB, MiB, GiB, TiB (powers
// of 1024; also K, M, G, T), kB, MB, GB, TB (powers of 1000); none is bytes.
// Upper and lower case are the same. Parts of a byte are
// cut off. InvalidArgument: anything else, negative, or over 2^63 - 1.
absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text);

// At most four digits and the largest unit of 1024 that fits: "0 B",
// "1023 B", "64 KiB", "11.7 GiB".
std::string FormatByteSize(uint64_t bytes);

// The same, with the number of bytes where rounding hides it: for a size that a
// sentence compares with another one.
std::string FormatExactByteSize(uint64_t bytes);

}  // namespace millrace

#endif  // MILLRACE_COMMON_BYTE_SIZE_H_
