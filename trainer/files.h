// Files that are either whole or not there, and folders.

#ifndef MILLRACE_TRAINER_FILES_H_
#define MILLRACE_TRAINER_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Says now what would fail at the end of a long run: that `path` cannot be
// written. Leaves nothing behind, and removes what a process that was killed
// has left beside it.
absl::Status CheckWritable(const std::string& path);

absl::Status CheckReadable(const std::string& path);

// Makes the folder `path` and those above it where they are missing.
absl::Status MakeFolders(const std::string& path);

// As AtomicFile (atomic_file.h): on an error (disk full) what was at `path` is
// still there.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view contents);

// Refuses files above `limit` bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_FILES_H_
