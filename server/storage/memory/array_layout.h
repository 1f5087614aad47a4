// Where the arrays of a program are in the file that it passes
// (docs/protocol.md, "Arrays in memory"): a head that names them, and the
// arrays one behind the other. The parser of foreign bytes: no value of the
// head is trusted.
//
// Pure function, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(ArrayLayout layout, ParseArrayLayout(map.data()));
//   // Row r of array i: arrays[i].row_bytes bytes at
//   // arrays[i].offset + r * arrays[i].row_bytes.

#ifndef MILLRACE_SERVER_STORAGE_MEMORY_ARRAY_LAYOUT_H_
#define MILLRACE_SERVER_STORAGE_MEMORY_ARRAY_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

// The head before its message: letters, u32 version, u32 length of the message,
// u64 rows.
inline constexpr absl::string_view kArrayLetters = "MRARRAYS";
inline constexpr uint32_t kArrayVersion = 1;
inline constexpr size_t kArrayHeadBytes = 24;
// Each array begins at a multiple of it.
inline constexpr uint64_t kArrayAlignment = 64;

struct ArrayLayout {
  struct Array {
    uint64_t offset = 0;
    uint64_t row_bytes = 0;
  };
  int64_t rows = 0;           // at least 1
  Schema schema;              // of tensors; has passed SampleCheck::Create()
  std::vector<Array> arrays;  // of schema.fields(); all rows are in the file
};

// `file`: all of its bytes. InvalidArgument: says what is wrong.
absl::StatusOr<ArrayLayout> ParseArrayLayout(absl::Span<const uint8_t> file);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_MEMORY_ARRAY_LAYOUT_H_
