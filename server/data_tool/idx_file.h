// IDX files, the format of MNIST and its successors: a magic number, the
// dimensions as big-endian u32, the bytes. Plain or compressed with gzip.

#ifndef MILLRACE_SERVER_DATA_TOOL_IDX_FILE_H_
#define MILLRACE_SERVER_DATA_TOOL_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::data_tool {

// An array of bytes.
struct IdxFile {
  std::vector<int64_t> shape;
  std::string bytes;  // row-major, as many as the shape says
};

// NotFound and so on: as the file system says. DataLoss: no IDX file,
// truncated, longer than it says, or a broken gzip stream. Unimplemented: its
// elements are not bytes. Names the file.
absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_IDX_FILE_H_
