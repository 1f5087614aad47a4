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

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/operators/operators.h"
#include "server/storage/imagefolder/class_folders.h"
#include "server/storage/imagefolder/folder_entries.h"
#include "server/storage/imagefolder/folder_files.h"
#include "server/storage/imagefolder/folder_notes.h"

namespace millrace::storage {

struct FolderListing {
  std::vector<std::string> classes;  // names; the label is the place
  // Regular files with an image's name. Their first bytes may still be those of
  // something else. Only FolderUse::kUri lists empty files.
  FolderFiles files;
  // Memory of `files` and `folders`. Both are empty if it is above
  // ScanOptions::max_memory_bytes; the numbers are those of the whole list all
  // the same.
  uint64_t memory_bytes = 0;
  uint64_t file_count = 0;
  uint64_t folder_count = 0;
  uint64_t largest_file_bytes = 0;
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
// folders are nested too deeply, or a folder's name is not UTF-8. Errors of
// ListingSize::AddFolder().
absl::StatusOr<FolderListing> ScanImageFolder(const std::string& folder,
                                              const ScanOptions& options);

// Memory of a listing, as FolderListing::memory_bytes counts it.
uint64_t ListingBytes(const FolderFiles& files,
                      const std::vector<FolderState>& folders);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_SCAN_H_
