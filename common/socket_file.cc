#include "common/socket_file.h"

#include <sys/stat.h>
#include <unistd.h>

namespace millrace {

std::optional<SocketFile> FindSocketFile(const std::string& name) {
  struct stat status = {};
  if (name.empty() || name[0] == '@' || lstat(name.c_str(), &status) != 0) {
    return std::nullopt;
  }
  return SocketFile{status.st_dev, status.st_ino};
}

void RemoveSocketFile(const std::string& name, const SocketFile& file) {
  if (FindSocketFile(name) == file) unlink(name.c_str());
}

}  // namespace millrace
