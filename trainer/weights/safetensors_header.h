// The JSON of a safetensors file, read by a small parser of its own: the
// numbers are 64-bit offsets, which general parsers make doubles of, and a name
// that comes twice must be seen.
//
// Pure function.

#ifndef MILLRACE_TRAINER_WEIGHTS_SAFETENSORS_HEADER_H_
#define MILLRACE_TRAINER_WEIGHTS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32"
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // in the bytes after the header
  uint64_t end = 0;
};

// The entry of "__metadata__" in which WriteSafetensors() keeps a digest of the
// bytes after the header: XXH3-64 as 16 hexadecimal digits.
inline constexpr absl::string_view kDataDigestName = "millrace_data_xxh3";

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in their order
  std::string data_digest;  // kDataDigestName; empty: the file has none
};

// Other entries of "__metadata__" are checked and left out. DataLoss: no such
// JSON.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(
    absl::string_view json);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_WEIGHTS_SAFETENSORS_HEADER_H_
