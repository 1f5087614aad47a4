// Checks that the folders of an image folder are its classes, by their names,
// the names of their files and the levels below them. Without the check, parts
// of a dataset (train/, val/), or a folder one level too high, would silently
// become classes.
//
// Every command that a refusal or a warning suggests passes the same checks.
//
// Pure functions: they see names, never the disk.
//
//   ImageFolders input;
//   input.folders["train"].folders["cat"].images.Add("1.jpg");
//   MR_RETURN_IF_ERROR(
//       CheckClassFolders("/data", input, {}, FolderUse::kPack).status());

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_CLASS_FOLDERS_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_CLASS_FOLDERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/imagefolder/folder_advice.h"
#include "server/storage/imagefolder/image_folders.h"

namespace millrace::storage {

// `path` of `input`, whose folders would be the classes; `tables`: files within
// it that may hold labels.
// InvalidArgument: the folders are parts of a dataset, the classes lie deeper,
// a part lies beside classes, folders hold images and masks of the same
// samples, or all images would be of one class while there are tables. The
// message says what to do; it is OK when there is no image. Otherwise what may
// be wrong, a warning each.
absl::StatusOr<std::vector<std::string>> CheckClassFolders(
    const std::string& path, const ImageFolders& input,
    absl::Span<const std::string> tables, FolderUse use);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_CLASS_FOLDERS_H_
