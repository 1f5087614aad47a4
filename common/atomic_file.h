// AtomicFile writes a new file that replaces the file at its path completely or
// not at all: it writes PATH.tmp.PROCESS.RANDOM beside it, under a lock
// (flock), then renames. With kThroughPowerLoss the file is synchronised before
// the rename and its folder after it. A symbolic link stays: its target is
// replaced. A device, a pipe or an open descriptor (/dev/stdout) is written in
// place.
//
// What it is not: no lock of PATH. Two processes that write one path replace
// each other's file. One thread. It keeps nothing of what was written in
// memory.
//
//   MR_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
//   MR_RETURN_IF_ERROR(file->Write(bytes));   // as often as wanted
//   MR_RETURN_IF_ERROR(file->Commit());       // otherwise nothing happens

#ifndef MILLRACE_COMMON_ATOMIC_FILE_H_
#define MILLRACE_COMMON_ATOMIC_FILE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// The failures that the written file survives.
enum class Lasts {
  kThroughPowerLoss,
  // A killed process, not a loss of power: for files that are of no use then.
  kThroughCrash,
};

class AtomicFile {
 public:
  // NotFound: the folder is missing. Otherwise as FileError (file_error.h).
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(
      const std::string& path, Lasts lasts = Lasts::kThroughPowerLoss);
  // Removes what was not committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // After an error every call returns that error. A pipe is waited for as
  // WriteBytes() does (write_bytes.h).
  absl::Status Write(absl::string_view bytes);
  absl::Status Commit();

 private:
  // `fresh`: what is renamed; empty: the file is written in place.
  AtomicFile(std::string path, std::string target, std::string fresh,
             Lasts lasts, int fd);

  const std::string path_;    // as errors name it
  const std::string target_;  // where its links lead
  const std::string fresh_;
  const bool in_place_;  // a device or pipe: nothing is renamed over it
  const Lasts lasts_;
  int fd_;
  absl::Status status_;
  bool committed_ = false;
};

// Writes `contents` to the file at `path`. After an error (disk full) the old
// file is still there.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view contents,
                                 Lasts lasts = Lasts::kThroughPowerLoss);

// Removes the temporary files of `target` whose processes have ended, and logs
// each. Keeps those that a process is writing, on any machine or in any
// container.
void RemoveLeftovers(const std::string& target);

}  // namespace millrace

#endif  // MILLRACE_COMMON_ATOMIC_FILE_H_
