// WriteBytes writes to a descriptor that may be a pipe, a terminal or a socket.
// Such a write waits for its reader, and a signal that StopSignals holds does
// not interrupt it: a program whose reader takes nothing would never stop.
//
// What it is not: it opens, synchronises and closes nothing (atomic_file.h).
//
// Blocks. Any thread; one writer to a descriptor at a time.
//
//   absl::string_view rest = text;
//   MR_RETURN_IF_ERROR(WriteBytes(fd, path, &rest));

#ifndef MILLRACE_COMMON_WRITE_BYTES_H_
#define MILLRACE_COMMON_WRITE_BYTES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Writes `bytes`, and removes from them what was written. `path` names the file
// in errors. Waits for the reader of a pipe, a terminal or a socket without a
// limit; after a signal (stop_signals.h) it waits for 2 s at most each time
// that the reader takes nothing, and then returns Cancelled. Otherwise errors
// as FileError() makes them (file_error.h).
absl::Status WriteBytes(int fd, const std::string& path,
                        absl::string_view* bytes);

}  // namespace millrace

#endif  // MILLRACE_COMMON_WRITE_BYTES_H_
