// The name of this machine, for messages and names of files.
//
// Thread-safe.

#ifndef MILLRACE_COMMON_HOST_NAME_H_
#define MILLRACE_COMMON_HOST_NAME_H_

#include <unistd.h>

#include <string>

namespace millrace {

// "localhost" when the system has no name.
inline std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_HOST_NAME_H_
