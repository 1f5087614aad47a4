// A pair of IDX files (images, labels) as MNIST and Fashion-MNIST come:
// train-images-idx3-ubyte[.gz] and train-labels-idx1-ubyte[.gz], or t10k-...
// for the test split.

#ifndef MILLRACE_SERVER_DATA_TOOL_IDX_DATASET_H_
#define MILLRACE_SERVER_DATA_TOOL_IDX_DATASET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/data_tool/sample_reader.h"

namespace millrace::data_tool {

struct IdxOptions {
  std::string folder;
  std::string split = "train";  // "train" or "test"
  // PNG images instead of raw pixels uint8 [height, width, channels].
  bool as_png = false;
};

// Reads both files into memory. NotFound: a file is missing; names it.
// DataLoss: truncated or damaged, or the files do not belong together.
absl::StatusOr<std::unique_ptr<SampleReader>> OpenIdxDataset(
    const IdxOptions& options);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_IDX_DATASET_H_
