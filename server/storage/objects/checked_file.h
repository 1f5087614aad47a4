// Reads a file that others may change, replace or delete meanwhile: after a
// read the open file is compared with the version that is expected. A writer
// changes a file's times before its bytes, so this notices each change that the
// bytes may contain. The only place where files that are read as they are get
// opened and read.
//
// A file that was overwritten, truncated, deleted, or replaced by another file
// under its name differs: removing or replacing a name changes the file's link
// count, and so its time of change.
//
// Pure functions of the file system; safe from any thread.
//
//   const UniqueFd file = OpenToRead(AT_FDCWD, path);
//   if (!file.ok()) return Sentence(OpenFault(errno));
//   if (auto fault = ReadChecked(file.get(), version, 512, data)) ...

#ifndef MILLRACE_SERVER_STORAGE_OBJECTS_CHECKED_FILE_H_
#define MILLRACE_SERVER_STORAGE_OBJECTS_CHECKED_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"

namespace millrace::storage {

// What a file was when it was indexed. Times in nanoseconds since 1970.
struct FileVersion {
  uint64_t bytes = 0;
  int64_t modified_nanos = 0;
  // Together: by which a file differs from one of equal size and time; absent:
  // such a file is as good.
  struct Strict {
    int64_t changed_nanos = 0;
    uint64_t inode = 0;
  };
  std::optional<Strict> strict;
  // The end of sentences: "after it was indexed".
  absl::string_view since;
};

// Why a file was not read.
struct FileFault {
  // The file is not the expected one: what follows its path in a sentence. No
  // other attempt helps.
  std::string changed;
  // Otherwise: an errno, and what failed ("read byte 5 of").
  int error = 0;
  std::string action;

  // Of another fault than a change. DataLoss: permissions are missing, so no
  // attempt succeeds before a person has changed them. Unavailable: another
  // attempt may succeed.
  absl::Status ToStatus(const std::string& path) const;
};

int64_t NanosOf(const struct timespec& time);

// Follows links. Not ok: errno says why. Never waits for the writer of a FIFO.
UniqueFd OpenToRead(int folder, const std::string& path);

// Of an errno of OpenToRead().
FileFault OpenFault(int error);

// Fills `data` with the bytes from `offset` on; absent: done. After a fault the
// content of `data` is undefined.
std::optional<FileFault> ReadChecked(int file, const FileVersion& version,
                                     uint64_t offset, absl::Span<uint8_t> data);

// The two parts of it, for a caller that makes many small reads and compares
// once behind them: bytes that may be another version's, and the comparison.
std::optional<FileFault> ReadUnchecked(int file, const FileVersion& version,
                                       uint64_t offset,
                                       absl::Span<uint8_t> data);
std::optional<FileFault> CheckVersion(int file, const FileVersion& version);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_OBJECTS_CHECKED_FILE_H_
