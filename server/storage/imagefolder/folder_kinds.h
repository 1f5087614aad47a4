// Folders that hold a kind of data that each sample has, such as images and
// masks: they are no classes.
//
// Pure functions: they see names, never the disk.
//
//   std::string why = WhyKinds(input, {"images", "masks"});

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_KINDS_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_KINDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/storage/imagefolder/image_folders.h"

namespace millrace::storage {

// Whether a folder's name is a kind of data that each sample has, such as
// masks.
bool IsKind(absl::string_view name);

// The same, for names that a class may have: people with and without a mask are
// classes, not masks.
bool IsKindAndNoClass(absl::string_view name);

// The reason, for a sentence, why the folders `names` of `folder` hold
// something of each sample; empty: there is no such reason.
std::string WhyKinds(const ImageFolders& folder,
                     const std::vector<std::string>& names);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_KINDS_H_
