// An image folder: one folder per class, images (JPEG, PNG, WebP) below it at
// any depth. Classes are the folders' names in bytewise order; samples are in
// bytewise order of their paths.
//
//   DIR/cat/1.jpg   DIR/cat/2.jpg   DIR/dog/a/1.png

#ifndef MILLRACE_SERVER_DATA_TOOL_IMAGE_FOLDER_H_
#define MILLRACE_SERVER_DATA_TOOL_IMAGE_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/data_tool/sample_reader.h"
#include "server/operators/operators.h"

namespace millrace {

struct ImageFolderOptions {
  std::string folder;
  // Leave out files that are no image instead of failing, and say how many.
  bool skip_bad = false;
  // Files that a decoder of these knows by their first bytes are images,
  // whatever their names; null: none. Must outlive the reader.
  const Operators* operators = nullptr;
};

// Looks at the beginning of every file. NotFound: no such folder.
// InvalidArgument: no class folders, or a class without images. DataLoss: a
// file with an image's name is no image; names it and --skip_bad.
absl::StatusOr<std::unique_ptr<SampleReader>> OpenImageFolder(
    const ImageFolderOptions& options);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_IMAGE_FOLDER_H_
