// What may be wrong with a listing that is whole: classes without a sample, and
// names that a conversion or a copy may have left behind. The sentences are
// warnings.
//
// Pure functions: they see names, never the disk.
//
//   std::string doubt = SharedStems("/data", files, "packed");

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_LISTING_DOUBTS_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_LISTING_DOUBTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/storage/imagefolder/folder_files.h"

namespace millrace::storage {

// The class folders of the listing without a file in `files`: "PATH/cat".
std::vector<std::string> EmptyClasses(const std::string& folder,
                                      const std::vector<std::string>& classes,
                                      const FolderFiles& files);

// A warning if files of one folder differ only in the suffix, because a
// conversion may have left the old ones; empty: there are none. `verb`:
// "packed".
std::string SharedStems(const std::string& folder, const FolderFiles& files,
                        absl::string_view verb);

// A warning if names of classes differ only in upper and lower case, which a
// file system without such a difference may have made one; empty: they do not.
std::string SameButForCase(const std::vector<std::string>& classes);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_LISTING_DOUBTS_H_
