// IsFolder tells whether a path leads to a folder.
//
// Thread-safe.
//
//   if (IsFolder(path)) return Refused("name a file in it");

#ifndef MILLRACE_COMMON_FOLDER_H_
#define MILLRACE_COMMON_FOLDER_H_

#include <string>

namespace millrace {

// A folder or a link to one. False also when nothing is there, or when the
// system does not say.
bool IsFolder(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_COMMON_FOLDER_H_
