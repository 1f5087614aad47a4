// The samples of an image folder (server/storage/imagefolder/folder_scan.h) for
// the packer, which also checks every image.

#ifndef MILLRACE_SERVER_DATA_TOOL_IMAGE_FOLDER_H_
#define MILLRACE_SERVER_DATA_TOOL_IMAGE_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/data_tool/sample_reader.h"
#include "server/operators/operators.h"

namespace millrace::data_tool {

struct ImageFolderOptions {
  std::string folder;
  bool by_split = false;  // --split chose `folder`: advice says to undo that
  // Skip damaged images and keep classes without images instead of failing;
  // Warnings() name them.
  bool skip_bad = false;
  // Decode every image (server/data_tool/image_check.h), on this many threads;
  // 0: look at their first bytes only.
  uint32_t decode_threads = 0;
  // The folders are the classes, even if there are signs that they are not.
  bool labels_from_folders = false;
  // Files that a decoder of these knows by their first bytes are images,
  // whatever their names; null: none. Must outlive the reader.
  const operators::Operators* operators = nullptr;
};

// Looks at the beginning of every file, or decodes them. NotFound: no such
// folder. InvalidArgument: no class folders, or classes without images, or the
// folders do not look like classes (server/storage/imagefolder/class_folders.h;
// options.labels_from_folders takes them all the same). DataLoss: files with an
// image's name are no image of a format that is read, or do not decode; names
// the first of them and --skip_bad. Cancelled: interrupted while decoding.
absl::StatusOr<std::unique_ptr<SampleReader>> OpenImageFolder(
    const ImageFolderOptions& options);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_IMAGE_FOLDER_H_
