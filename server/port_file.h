// Tells scripts which port was chosen.

#ifndef MILLRACE_SERVER_PORT_FILE_H_
#define MILLRACE_SERVER_PORT_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace millrace {

// Removes the file of an earlier server, if there is one. Leaves symbolic links,
// devices and pipes. Errors name the file and the reason.
absl::Status RemovePortFile(const std::string& path);

// Writes the port and a newline to `path`, at once: who sees the file sees
// all of it. A symbolic link stays, a device or pipe is written in place. Errors name the file and the reason.
absl::Status WritePortFile(const std::string& path, int port);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PORT_FILE_H_
