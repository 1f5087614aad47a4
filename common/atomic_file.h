// AtomicFile is a new file that takes the place of the one at its path as a
// whole, or not at all: it is written beside it as PATH.tmp.PROCESS.RANDOM,
// under a lock (flock), then renamed. With kThroughPowerLoss the file is synchronised before and its
// folder after the rename. A symbolic link stays one: the file that it leads to
// is replaced. A device or pipe (/dev/stdout) is written in place.
//
// What it is not: no lock of PATH. Two processes that write one path replace
// each other's file. One thread. It keeps nothing of what was written in memory.
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

// What the file that was written survives.
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

  // After an error every call returns that error.
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

// `contents` as the file at `path`. On an error (disk full) what was there is
// still there.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view contents,
                                 Lasts lasts = Lasts::kThroughPowerLoss);

// Removes what processes that have ended in between left beside the file
// `target`; says so in the log. Leaves what a process is writing, on whatever
// machine or in whatever container.
void RemoveLeftovers(const std::string& target);

}  // namespace millrace

#endif  // MILLRACE_COMMON_ATOMIC_FILE_H_
