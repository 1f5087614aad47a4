// The hidden files and folders that a packing writes into before they get their
// names, and those that packings that were killed have left.
//
//   TemporaryFiles claim(folder, {"train.lmdb"});  // held while packing
//   std::string path = TemporaryPath("/data/train.lmdb");
//
// A packing holds a shared lock (flock) on the folder in which its temporary
// names lie. Left-overs are removed under the exclusive lock, so that no
// packing of this version is running there, and only those whose process is
// gone on this machine. Where a file system has no such locks, nothing is
// removed.

#ifndef MILLRACE_SERVER_STORAGE_TEMPORARY_FILES_H_
#define MILLRACE_SERVER_STORAGE_TEMPORARY_FILES_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// ".NAME.PID.tmp" beside `path`: hidden and with another suffix, so that nobody
// takes it for a shard; with the process in it, so that two packings do not
// write into one file.
std::string TemporaryPath(const std::string& path);

bool IsTemporaryName(absl::string_view name);

// "part-00000-of-00004.lmdb".
bool IsPackedShardName(absl::string_view name);

// In the order of the directory, without "." and "..".
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder);

// Removes a folder with the shards and temporary files of packings in it.
// False: something else is in it, which stays.
bool RemoveShardFolder(const std::string& folder);

// Belongs to one thread. Movable.
class TemporaryFiles {
 public:
  TemporaryFiles() = default;
  // Removes from `folder` what is left of packings of the names that `ours`
  // takes, and warns of what stays. Then others keep what they find there,
  // until this is destroyed.
  TemporaryFiles(const std::string& folder,
                 absl::FunctionRef<bool(absl::string_view)> ours);
  ~TemporaryFiles();
  TemporaryFiles(TemporaryFiles&& other) noexcept;
  TemporaryFiles& operator=(TemporaryFiles&& other) noexcept;

 private:
  int fd_ = -1;  // of the folder, locked; -1: none
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_TEMPORARY_FILES_H_
