// Tells scripts which port was chosen.

#ifndef MILLRACE_SERVER_PORT_FILE_H_
#define MILLRACE_SERVER_PORT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace::server {

// Checks that `path`, the value of --port_file, may be removed and replaced:
// the path leads to nothing, to a device or pipe, or to a port file (one line
// with a number, or no bytes). A usage error (common/usage_error.h) for every
// other file, such as a dataset, and for a folder. Changes nothing.
absl::Status CheckPortFile(const std::string& path);

// A usage error if `path` is the path of the dataset `name`, whose URI is
// `uri`. Changes nothing.
absl::Status CheckPortFileIsNoDataset(const std::string& path,
                                      absl::string_view name,
                                      absl::string_view uri);

// Removes the file of an earlier server, if there is one. Leaves symbolic
// links, devices and pipes. Errors name the file and the reason; those of
// CheckPortFile(), and then nothing is removed.
absl::Status RemovePortFile(const std::string& path);

// Writes the port and a newline to `path`, as AtomicFile (common/atomic_file.h)
// writes: readers see the whole line or no file. Errors name the file and the
// reason.
absl::Status WritePortFile(const std::string& path, int port);

}  // namespace millrace::server

#endif  // MILLRACE_SERVER_PORT_FILE_H_
