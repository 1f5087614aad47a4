// CIFAR-10 and CIFAR-100 in their binary version: data_batch_1.bin, ... and
// test_batch.bin (CIFAR-10), train.bin and test.bin (CIFAR-100). A record is
// one label byte (CIFAR-100: the coarse label, then the fine one) and the
// planes R, G, B of an image of 32 x 32 pixels. batches.meta.txt,
// fine_label_names.txt and coarse_label_names.txt hold the names of the
// classes, a line each.

#ifndef MILLRACE_SERVER_DATA_TOOL_CIFAR_DATASET_H_
#define MILLRACE_SERVER_DATA_TOOL_CIFAR_DATASET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/data_tool/sample_reader.h"

namespace millrace::data_tool {

struct CifarOptions {
  std::string folder;
  std::string split = "train";  // "train" or "test"
  // CIFAR-100: `label` is the fine label, `coarse_label` a field of its own.
  bool fine_and_coarse = false;
  // PNG images instead of raw pixels uint8 [32, 32, 3].
  bool as_png = false;
};

// Reads the files of the split into memory; samples are in the order of the
// files and records. NotFound: a file is missing; names it. DataLoss: a file is
// truncated, or has a label that the format does not have, or names of classes
// of another number; names the file.
absl::StatusOr<std::unique_ptr<SampleReader>> OpenCifarDataset(
    const CifarOptions& options);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_CIFAR_DATASET_H_
