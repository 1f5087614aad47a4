// Writes a batch as files: a .npy for each tensor, as it was on the wire. What
// `millrace replay` writes, and the trainer when a step has gone wrong.
//
//   MR_RETURN_IF_ERROR(MakeBatchFolder("bad", "--output"));
//   MR_ASSIGN_OR_RETURN(std::vector<BatchArray> arrays,
//                       WriteBatchArrays(batch, "bad"));

#ifndef MILLRACE_CLIENT_CLI_BATCH_FILES_H_
#define MILLRACE_CLIENT_CLI_BATCH_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/npy.h"
#include "client/prefetch/host_loader.h"
#include "proto/types.pb.h"

namespace millrace {

// One .npy file.
struct BatchArray {
  std::string name;
  std::string file;  // in the folder
  DType dtype;
  std::vector<int64_t> shape;
  absl::Span<const uint8_t> data;  // of the batch
  TensorLook look;
};

// Makes the folder when it is not there. AlreadyExists: it holds a batch or is
// no folder; the error names the flag to change.
absl::Status MakeBatchFolder(const std::string& path, absl::string_view flag);

// A ragged tensor becomes two files: NAME.offsets and its values.
absl::StatusOr<std::vector<BatchArray>> WriteBatchArrays(
    const HostBatch& batch, const std::string& folder);

// A JSON list of objects: name, file, dtype, shape, min, max, nan, inf.
std::string ToJson(absl::Span<const BatchArray> arrays);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_BATCH_FILES_H_
