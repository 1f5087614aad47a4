#include "common/special_file.h"

#include <sys/stat.h>

namespace millrace {

bool IsSpecialFile(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) &&
         !S_ISDIR(info.st_mode);
}

}  // namespace millrace
