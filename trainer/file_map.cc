#include "trainer/file_map.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/unique_fd.h"

namespace millrace::trainer {

absl::StatusOr<std::unique_ptr<const FileMap>> FileMap::Open(
    const std::string& path) {
  MR_ASSIGN_OR_RETURN(const int opened, OpenRegularFile(path));
  const UniqueFd fd(opened);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return FileError(errno, "read", path);
  const auto size = static_cast<size_t>(info.st_size);
  void* map = nullptr;
  if (size > 0) {
    map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (map == MAP_FAILED) return FileError(errno, "map", path);
  }
  return std::unique_ptr<const FileMap>(
      new FileMap(path, static_cast<const char*>(map), size));
}

FileMap::FileMap(std::string path, const char* data, size_t size)
    : path_(std::move(path)), data_(data), size_(size) {
  if (data_ != nullptr) guard_.emplace(data_, size_);
}

FileMap::~FileMap() {
  guard_.reset();
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

absl::Status FileMap::CheckWhole() const {
  if (!guard_.has_value() || !guard_->lost().has_value()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(path_,
                   " was truncated, or its disk failed, while it was read; try "
                   "again when no program writes to it"));
}

}  // namespace millrace::trainer
