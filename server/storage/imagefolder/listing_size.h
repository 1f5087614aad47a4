// ListingSize counts what a listing of an image folder finds, and bounds it:
// memory of the list, and links that lead to the same folders again. n levels
// with two links each have 2^n paths, of which none is a loop.
//
// A list that does not fit is counted to its end, so that a refusal can say
// what it needs, unless links have made most of it.
//
// Thread-safe.
//
//   ListingSize size("/data", max_bytes);
//   MR_ASSIGN_OR_RETURN(bool again, size.AddFolder("cat/b", device, inode));
//   if (size.AddFile("b/1.jpg", 4096, again)) Keep("b/1.jpg");

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_LISTING_SIZE_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_LISTING_SIZE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/mutex.h"

namespace millrace::storage {

class ListingSize {
 public:
  // Folders that may be reached again by links beside as many that are not.
  static constexpr uint64_t kMaxFoldersAgain = 1 << 20;

  // Memory of a folder in a list: its state, its place in folders_, and its
  // name where it is a class.
  static constexpr uint64_t FolderBytes(uint64_t path_bytes) {
    return 96 + path_bytes;
  }

  // `input`: the folder that is listed, for errors. `max_bytes`: memory for the
  // list.
  ListingSize(std::string input, uint64_t max_bytes)
      : input_(std::move(input)), max_bytes_(max_bytes) {}
  ListingSize(const ListingSize&) = delete;
  ListingSize& operator=(const ListingSize&) = delete;

  // A folder that is read now. Whether it was reached before on another path.
  // ResourceExhausted, a usage error: the list does not fit into `max_bytes`,
  // and links have made most of it. InvalidArgument: links lead to the same
  // folders too often; or the names are too many for a list.
  absl::StatusOr<bool> AddFolder(absl::string_view path, uint64_t device,
                                 uint64_t inode) MR_EXCLUDES(mu_);

  // An image in a folder; `again` as AddFolder() said of that. False: the list
  // does not fit, so the file need not be kept.
  bool AddFile(absl::string_view name, uint64_t file_bytes, bool again);

  bool fits() const { return bytes() <= max_bytes_; }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t files() const { return files_.load(std::memory_order_relaxed); }
  uint64_t folders() const { return folders_.load(std::memory_order_relaxed); }
  uint64_t largest_file() const {
    return largest_file_.load(std::memory_order_relaxed);
  }

 private:
  // "after 12 files in 3 folders, ..."
  std::string SoFar() const;

  const std::string input_;
  const uint64_t max_bytes_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> name_bytes_{0};
  std::atomic<uint64_t> files_{0};
  std::atomic<uint64_t> folders_{0};
  std::atomic<uint64_t> largest_file_{0};
  // Of the files and folders above, those in or of folders that were reached
  // before.
  std::atomic<uint64_t> entries_again_{0};
  Mutex mu_;
  uint64_t folders_again_ MR_GUARDED_BY(mu_) = 0;
  // Device and inode number.
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> reached_
      MR_GUARDED_BY(mu_);
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_LISTING_SIZE_H_
