// The file of a Unix socket that listens on a path, so that its owner removes
// its own file at the end, and no other server's.
//
// Thread-safe functions; plain data.
//
//   const std::optional<SocketFile> file = FindSocketFile(path);  // after bind
//   ...
//   if (file.has_value()) RemoveSocketFile(path, *file);

#ifndef MILLRACE_COMMON_SOCKET_FILE_H_
#define MILLRACE_COMMON_SOCKET_FILE_H_

#include <sys/types.h>

#include <optional>
#include <string>

namespace millrace {

struct SocketFile {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const SocketFile&) const = default;
};

// The file at `name`; nullopt: an abstract name (@...), or no file.
std::optional<SocketFile> FindSocketFile(const std::string& name);

// Removes the file at `name` if it is still `file`: another process may have
// removed it, and another server may have created its own there. While the
// socket is open, no other file gets the number of its inode.
void RemoveSocketFile(const std::string& name, const SocketFile& file);

}  // namespace millrace

#endif  // MILLRACE_COMMON_SOCKET_FILE_H_
