// Whether the folders of an image folder are its classes, as far as their names
// and the levels below them tell. Parts of a dataset (train/, val/), or a
// folder that is one level too high, would become classes without a word.
//
// Pure functions: they see names and paths, never the disk.
//
//   MR_RETURN_IF_ERROR(CheckClassNames("/data", {"train", "val"}));  // refused

#ifndef MILLRACE_SERVER_DATA_TOOL_CLASS_FOLDERS_H_
#define MILLRACE_SERVER_DATA_TOOL_CLASS_FOLDERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace {

// An image of a class.
struct ClassFile {
  std::string path;   // within the folder: "cat/1.jpg"
  int64_t label = 0;  // index into the classes
};

// `classes`: names of the folders in `folder`. InvalidArgument: they are parts
// of a dataset, or several of them are, and it says how to pack one of them; or
// they hold images and masks of the same samples.
absl::Status CheckClassNames(const std::string& folder,
                             const std::vector<std::string>& classes);

// `files` are in bytewise order of their paths. InvalidArgument: the classes
// lie deeper, or a part of a dataset lies beside classes. Otherwise what may be
// wrong, a warning each.
absl::StatusOr<std::vector<std::string>> CheckClassLevels(
    const std::string& folder, const std::vector<std::string>& classes,
    absl::Span<const ClassFile> files);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_CLASS_FOLDERS_H_
