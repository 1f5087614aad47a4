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

// The entries in their order; "__metadata__" is checked and left out. DataLoss:
// no such JSON.
absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(
    absl::string_view json);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_WEIGHTS_SAFETENSORS_HEADER_H_
