// Where a write to a path that a user gave ends. Programs write a file beside
// its target and rename it there, so that the file is whole or not there. Such
// a rename must not replace a symbolic link, nor, as root, /dev/null itself,
// nor the file that standard output goes to: follow the links first, and write
// a special file in place.
//
// What it is not: no protection against a program that changes the path between
// this call and the next.
//
//   if (IsSpecialFile(path)) {
//     MR_ASSIGN_OR_RETURN(fd, OpenSpecialFile(path)); ... write
//   }
//   MR_ASSIGN_OR_RETURN(const std::string target, FollowLinks(path));
//   ... write target + ".tmp", rename it to target

#ifndef MILLRACE_COMMON_WRITE_TARGET_H_
#define MILLRACE_COMMON_WRITE_TARGET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// True when `path`, its symbolic links followed, is a character or block
// device, a pipe or a socket, or names an open descriptor of this process
// (/dev/stdout, /dev/fd/3), whatever that is. False when nothing is there.
bool IsSpecialFile(const std::string& path);

// For writing. A descriptor that `path` names is duplicated, so that what is
// written comes after what the program has written to it, and nothing is
// overwritten. The caller closes the descriptor. Unavailable: no program has
// opened the pipe for reading; waiting for one could take for ever. Otherwise
// errors as FileError() makes them.
absl::StatusOr<int> OpenSpecialFile(const std::string& path);

// The end of the symbolic links of `path`, which need not exist.
// FailedPrecondition: the links lead in a circle.
absl::StatusOr<std::string> FollowLinks(const std::string& path);

// The target of `path`, which need not exist, as an absolute path: equal for
// two paths exactly when a write to one replaces the file of the other. Two
// hard links to one file are two targets. Errors as FollowLinks().
absl::StatusOr<std::string> RealPath(absl::string_view path);

// Removes the file that an earlier run left where `path` leads, so that it is
// not taken for the result of this one. OK: nothing is there, or a special
// file, which stays.
absl::Status RemoveOldFile(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_COMMON_WRITE_TARGET_H_
