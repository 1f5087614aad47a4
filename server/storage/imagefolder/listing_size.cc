#include "server/storage/imagefolder/listing_size.h"

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/count_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/imagefolder/folder_files.h"

namespace millrace::storage {

absl::StatusOr<bool> ListingSize::AddFolder(absl::string_view path,
                                            uint64_t device, uint64_t inode) {
  folders_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(FolderBytes(path.size()), std::memory_order_relaxed);
  MR_RETURN_IF_ERROR(
      FolderFiles::CheckNameBytes(name_bytes_.load(std::memory_order_relaxed)));
  uint64_t distinct, again;
  bool is_again;
  {
    MutexLock lock(mu_);
    is_again = !reached_.emplace(device, inode).second;
    folders_again_ += is_again;
    again = folders_again_;
    distinct = reached_.size();
  }
  if (is_again) entries_again_.fetch_add(1, std::memory_order_relaxed);
  if (again > distinct + kMaxFoldersAgain) {
    return absl::InvalidArgumentError(absl::StrCat(
        "links in ", input_,
        " lead to the same folders again and again, such "
        "as ",
        input_, "/", path, ": ", SoFar(), ", ", again,
        " of these folders had been listed before; remove such links"));
  }
  const uint64_t entries = files() + folders();
  const uint64_t entries_again = entries_again_.load(std::memory_order_relaxed);
  if (is_again && !fits() && entries_again > entries - entries_again) {
    return UsageError(absl::ResourceExhaustedError(absl::StrCat(
        "links in ", input_,
        " lead to the same folders again and again, such "
        "as ",
        input_, "/", path, ": ", SoFar(), ", the list needs ",
        FormatExactByteSize(bytes()), " of memory, and the memory budget has ",
        FormatExactByteSize(max_bytes_),
        " for it; remove such links, or raise --memory_budget if each path is "
        "meant to be a sample")));
  }
  return is_again;
}

bool ListingSize::AddFile(absl::string_view name, uint64_t file_bytes,
                          bool again) {
  files_.fetch_add(1, std::memory_order_relaxed);
  if (again) entries_again_.fetch_add(1, std::memory_order_relaxed);
  name_bytes_.fetch_add(name.size(), std::memory_order_relaxed);
  uint64_t largest = largest_file();
  while (largest < file_bytes &&
         !largest_file_.compare_exchange_weak(largest, file_bytes,
                                              std::memory_order_relaxed)) {
  }
  const uint64_t more = FolderFiles::MemoryBytes(1, name.size());
  return bytes_.fetch_add(more, std::memory_order_relaxed) + more <= max_bytes_;
}

std::string ListingSize::SoFar() const {
  return absl::StrCat("after ", CountText(files(), "file"), " in ",
                      CountText(folders(), "folder"));
}

}  // namespace millrace::storage
