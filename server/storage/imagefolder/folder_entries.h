// The entries of one folder, as a listing needs them: names, kinds, sizes and
// times, in bytewise order of the names. Links are followed.
//
// It looks at the folder alone, not below it, and opens no file.
//
//   MR_ASSIGN_OR_RETURN(FolderEntries entries, ReadFolder("/data/cat", "cat"));

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_ENTRIES_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_ENTRIES_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

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

struct FolderEntry {
  std::string name;
  int error = 0;  // why nothing is known about it: an errno
  bool folder = false;
  bool regular = false;
  uint64_t bytes = 0;
  int64_t modified_nanos = 0;
};

struct FolderEntries {
  std::vector<FolderEntry> files;  // all that is no folder
  std::vector<FolderEntry> folders;
  std::vector<std::string> hidden;  // names that begin with a dot, as for `ls`
  FolderState state;
  uint64_t device = 0;
};

// `below`: the path within the input, for the state. Errors of FileError().
absl::StatusOr<FolderEntries> ReadFolder(const std::string& path,
                                         const std::string& below);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_ENTRIES_H_
