// Tells scripts which port was chosen.

#ifndef MILLRACE_SERVER_PORT_FILE_H_
#define MILLRACE_SERVER_PORT_FILE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/atomic_file.h"

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

// Where the port is written once it is known. One thread.
class PortFile {
 public:
  // Writes nothing.
  PortFile() = default;

  // Of --port_file; an empty path: nothing is written. A pipe or device is
  // opened now and kept open until Write(). Unavailable: no program reads the
  // pipe. Errors name the file and the reason.
  static absl::StatusOr<PortFile> Open(const std::string& path);

  // Writes the port and a newline, as AtomicFile (common/atomic_file.h) writes:
  // readers see the whole line or no file. Called once. Errors like Open().
  absl::Status Write(int port);

 private:
  std::string path_;
  std::unique_ptr<AtomicFile> special_;  // null: a file
};

}  // namespace millrace::server

#endif  // MILLRACE_SERVER_PORT_FILE_H_
