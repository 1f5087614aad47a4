// Tells scripts which port was chosen.

#ifndef MILLRACE_SERVER_PORT_FILE_H_
#define MILLRACE_SERVER_PORT_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace millrace {

// Removes the file of an earlier server, if there is one. Leaves symbolic
// links, devices and pipes. InvalidArgument, with the mark of UsageError(): the
// file is no port file (common/output_file.h). Errors name the file and the
// reason.
absl::Status RemovePortFile(const std::string& path);

// Writes the port and a newline to `path`, as AtomicFile (common/atomic_file.h)
// writes: readers see the whole line or no file. Errors name the file and the
// reason.
absl::Status WritePortFile(const std::string& path, int port);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PORT_FILE_H_
