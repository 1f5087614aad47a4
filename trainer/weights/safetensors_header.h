// Parser of the JSON header of a safetensors file. It is not a general parser:
// those convert numbers to doubles, but the header has 64-bit offsets, and they
// accept duplicate names, which must be refused.
//
// Pure function.

#ifndef MILLRACE_TRAINER_WEIGHTS_SAFETENSORS_HEADER_H_
#define MILLRACE_TRAINER_WEIGHTS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::weights {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32"
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // offset in the bytes after the header
  uint64_t end = 0;
};

// The entry of "__metadata__" in which WriteSafetensors() stores a digest of
// the bytes after the header: XXH3-64 as 16 hexadecimal digits.
inline constexpr absl::string_view kDataDigestName = "millrace_data_xxh3";

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the header's order
  std::string data_digest;  // kDataDigestName; empty: the file has none
};

// Other entries of "__metadata__" are checked and dropped. DataLoss: invalid
// JSON or an invalid header.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(
    absl::string_view json);

}  // namespace millrace::weights

#endif  // MILLRACE_TRAINER_WEIGHTS_SAFETENSORS_HEADER_H_
