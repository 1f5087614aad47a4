// Folders by their paths.
//
// Thread-safe.
//
//   if (IsFolder(path)) found.push_back(JoinPath(path, "a.lmdb"));

#ifndef MILLRACE_COMMON_FOLDER_H_
#define MILLRACE_COMMON_FOLDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// A folder or a link to one. False also when nothing is there, or when the
// system does not say.
bool IsFolder(const std::string& path);

// The path of `name` in a folder whose path may end in a slash.
std::string JoinPath(absl::string_view folder, absl::string_view name);

}  // namespace millrace

#endif  // MILLRACE_COMMON_FOLDER_H_
