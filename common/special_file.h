// IsSpecialFile tells devices, pipes and sockets from files. Programs that write
// a file beside its target and rename it there must not do so to /dev/null or
// /dev/stdout: as root the rename would replace the device itself. They write a
// special file in place.
//
// What it is not: no protection against somebody who changes the path between
// this call and the next.

#ifndef MILLRACE_COMMON_SPECIAL_FILE_H_
#define MILLRACE_COMMON_SPECIAL_FILE_H_

#include <string>

namespace millrace {

// True when `path`, its symbolic links followed, is a character or block device,
// a pipe or a socket. False when nothing is there.
bool IsSpecialFile(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_COMMON_SPECIAL_FILE_H_
