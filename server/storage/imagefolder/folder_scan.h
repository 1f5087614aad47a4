// Lists an image folder: one folder for each class, images (JPEG, PNG, WebP)
// below it at any depth. Classes are the folders' names in bytewise order;
// samples are in bytewise order of their paths. Links are followed.
//
//   DIR/cat/1.jpg   DIR/cat/2.jpg   DIR/dog/a/1.png
//
// `millrace-data pack` and the server's imagefolder: share it, so that both see
// the same samples. It looks at names, sizes and times, and at the first bytes
// of a few PNGs; of other files only if there are decoders of operators.
//
// Folders are read on several threads; the result does not depend on them.
//
//   MR_ASSIGN_OR_RETURN(FolderListing listing, ScanImageFolder("/data", {}));

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_SCAN_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_SCAN_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/operators/operators.h"
#include "server/storage/imagefolder/class_folders.h"
#include "server/storage/imagefolder/folder_files.h"
#include "server/storage/imagefolder/folder_notes.h"

namespace millrace::storage {

// What tells that the entries of a folder are the same as before.
struct FolderState {
  std::string path;  // within the input; empty: the input itself
  int64_t modified_nanos = 0;
  int64_t changed_nanos = 0;
  uint64_t inode = 0;

  bool SameAs(const FolderState& other) const {
    return modified_nanos == other.modified_nanos &&
           changed_nanos == other.changed_nanos && inode == other.inode;
  }
};

FolderState StateOf(std::string path, const struct stat& info);
int64_t ModifiedNanos(const struct stat& info);

struct FolderListing {
  std::vector<std::string> classes;  // names; the label is the place
  // Regular files with an image's name that are not empty. Their first bytes
  // may still be those of something else.
  FolderFiles files;
  // Memory of `files`. Above ScanOptions::max_memory_bytes `files` is empty.
  uint64_t memory_bytes = 0;
  FolderNotes notes;
  std::vector<std::string> doubts;   // warnings about the classes
  std::vector<FolderState> folders;  // all that were read
};

struct ScanOptions {
  FolderUse use = FolderUse::kPack;
  // The folders are the classes, even if there are signs that they are not.
  bool labels_from_folders = false;
  // Files that a decoder of these knows by their first bytes are images,
  // whatever their names; null: none.
  const operators::Operators* operators = nullptr;
  uint64_t max_memory_bytes = UINT64_MAX;
  uint32_t threads = 8;
};

// NotFound, PermissionDenied, ...: a folder cannot be read. InvalidArgument: no
// class folders, or the folders do not look like classes (class_folders.h);
// folders are nested too deeply, or a folder's name is not UTF-8.
absl::StatusOr<FolderListing> ScanImageFolder(const std::string& folder,
                                              const ScanOptions& options);

// The class folders of the listing without a file in `files`: "PATH/cat".
std::vector<std::string> EmptyClasses(const std::string& folder,
                                      const std::vector<std::string>& classes,
                                      const FolderFiles& files);

// A warning if files of one folder differ only in the suffix, because a
// conversion may have left the old ones; empty: there are none. `verb`:
// "packed".
std::string SharedStems(const std::string& folder, const FolderFiles& files,
                        absl::string_view verb);

// Whether a decoder of `operators` accepts a file with this start. Null: none.
bool IsOperatorsImage(const operators::Operators* operators,
                      absl::string_view start);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_SCAN_H_
