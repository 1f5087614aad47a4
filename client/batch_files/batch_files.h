// WriteBatchArrays writes a batch as files: a .npy for each tensor, as it was
// on the wire. `millrace replay` writes these files, and the trainer does when
// the loss of a step is not finite.
//
// What it is not: it does not write batch.json, which each program fills
// itself.
//
// Not thread-safe for one folder.
//
//   MR_RETURN_IF_ERROR(MakeBatchFolder("bad", "--output"));
//   MR_ASSIGN_OR_RETURN(std::vector<BatchArray> arrays,
//                       WriteBatchArrays(batch, "bad"));

#ifndef MILLRACE_CLIENT_BATCH_FILES_BATCH_FILES_H_
#define MILLRACE_CLIENT_BATCH_FILES_BATCH_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/batch_files/npy.h"
#include "client/prefetch/host_loader.h"
#include "proto/types.pb.h"

namespace millrace::batch_files {

// One .npy file.
struct BatchArray {
  std::string name;
  std::string file;  // name in the folder
  DType dtype;
  std::vector<int64_t> shape;
  absl::Span<const uint8_t> data;  // of the batch
  TensorLook look;
};

// Creates the folder when it is missing. AlreadyExists: it contains a batch, or
// is a file; the error names `flag`.
absl::Status MakeBatchFolder(const std::string& path, absl::string_view flag);

// A ragged tensor becomes two files: NAME.offsets, and NAME with the values.
absl::StatusOr<std::vector<BatchArray>> WriteBatchArrays(
    const HostBatch& batch, const std::string& folder);

// Row of the first NaN or infinity; nullopt: all elements are finite.
std::optional<uint64_t> FirstBadRow(const BatchArray& array);

// A JSON list of objects: name, file, dtype, shape, min, max, nan, inf.
std::string ToJson(absl::Span<const BatchArray> arrays);

}  // namespace millrace::batch_files

#endif  // MILLRACE_CLIENT_BATCH_FILES_BATCH_FILES_H_
