// WriteBatchFiles writes a batch as files: a .npy for each tensor, as it was on
// the wire, and batch.json. `millrace replay` writes these files, and the
// trainer does when the loss of a step is not finite.
//
// What it is not: it does not compose batch.json, which each program fills
// itself. It replaces no file.
//
// Not thread-safe for one folder.
//
//   const std::vector<BatchArray> arrays = ArraysOf(batch);
//   MR_RETURN_IF_ERROR(WriteBatchFiles(arrays, json, "bad", Folder::kMayExist,
//                                      "--output=DIR"));

#ifndef MILLRACE_CLIENT_BATCH_FILES_BATCH_FILES_H_
#define MILLRACE_CLIENT_BATCH_FILES_BATCH_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

// A ragged tensor becomes two files: NAME.offsets, and NAME with the values.
// Views into `batch`, which must live as long.
std::vector<BatchArray> ArraysOf(const HostBatch& batch);

enum class Folder {
  kMayExist,  // without any of the files
  kIsNew,
};

// Creates the folder when it is missing, the .npy files, and last batch.json
// with the text `json`. AlreadyExists: the folder exists and must be new, it
// has one of the names (a file, a link, a FIFO: nothing is written then), or it
// is no folder; the error names `flag`. After any error the files that the call
// has created are removed, and so is a folder that it has created.
absl::Status WriteBatchFiles(absl::Span<const BatchArray> arrays,
                             const std::string& json, const std::string& folder,
                             Folder state, absl::string_view flag);

// The folder has what WriteBatchFiles() writes: batch.json with this text, and
// .npy files of the right sizes. False also when they cannot be read.
bool HasBatchFiles(absl::Span<const BatchArray> arrays, const std::string& json,
                   const std::string& folder);

// Row of the first NaN or infinity; nullopt: all elements are finite.
std::optional<uint64_t> FirstBadRow(const BatchArray& array);

// A JSON list of objects: name, file, dtype, shape, min, max, nan, inf.
std::string ToJson(absl::Span<const BatchArray> arrays);

}  // namespace millrace::batch_files

#endif  // MILLRACE_CLIENT_BATCH_FILES_BATCH_FILES_H_
