// The hidden files and folders that a pack writes before it gives them their
// names, and the ones that killed packs have left.
//
//   TemporaryFiles claim(folder, {"train.lmdb"});  // held while packing
//   std::string path = TemporaryPath("/data/train.lmdb");
//
// A pack holds a shared lock (flock) on the folder of its temporary names.
// Leftovers are removed or adopted under the exclusive lock, so that no pack of
// this version runs there, and only leftovers whose process no longer runs on
// this machine. (A process with the number that runs another program does not
// count where there is a journal: containers use numbers again.) If the file
// system has no such locks, nothing is removed.

#ifndef MILLRACE_SERVER_STORAGE_TEMPORARY_FILES_H_
#define MILLRACE_SERVER_STORAGE_TEMPORARY_FILES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "server/storage/packing_journal.h"

namespace millrace::storage {

// ".NAME.PID.tmp" beside `path`: hidden and with another suffix, so that nobody
// takes it for a shard; with the process in it, so that two packings do not
// write into one file.
std::string TemporaryPath(const std::string& path);

bool IsTemporaryName(absl::string_view name);

// Whether a packing that no longer runs (as TemporaryFiles finds out) has left
// a folder for the NAME `of` in `folder`: `journal` is its journal, of several
// folders the one with the most shards.
bool FindLeftPacking(const std::string& folder, absl::string_view of,
                     PackingJournal::Content* journal);

// "part-00000-of-00004.lmdb".
bool IsPackedShardName(absl::string_view name);

// Removes a folder with the shards and temporary files and folders of packings
// in it. False: something else is in it, which stays.
bool RemoveShardFolder(const std::string& folder);

// Belongs to one thread. Movable.
class TemporaryFiles {
 public:
  TemporaryFiles() = default;
  // Removes from `folder` what is left of packings of the names that `ours`
  // takes, and warns of what stays. Then others keep what they find there,
  // until this is destroyed. `adopt_as` (empty: nothing is adopted): the path
  // that the left folder gets whose journal has the most shards
  // (server/storage/packing_journal.h).
  TemporaryFiles(const std::string& folder,
                 absl::FunctionRef<bool(absl::string_view)> ours,
                 const std::string& adopt_as = "");
  ~TemporaryFiles();
  TemporaryFiles(TemporaryFiles&& other) noexcept;
  TemporaryFiles& operator=(TemporaryFiles&& other) noexcept;

  // Whether a folder lies at `adopt_as` now.
  bool adopted() const { return adopted_; }

 private:
  int fd_ = -1;  // of the folder, locked; -1: none
  bool adopted_ = false;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TEMPORARY_FILES_H_
