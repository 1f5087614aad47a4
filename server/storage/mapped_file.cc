#include "server/storage/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "common/file_error.h"
#include "common/status_macros.h"

namespace millrace::storage {

absl::StatusOr<std::unique_ptr<const MappedFile>> MappedFile::Open(
    const std::string& path) {
  // Without O_NONBLOCK the open() of a FIFO waits for a writer.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.ok()) return FileError(errno, "open", path);
  std::unique_ptr<MappedFile> file(new MappedFile(std::move(fd)));
  MR_ASSIGN_OR_RETURN(file->watch_, FileWatch::Begin(path, file->file_.get()));
  const uint64_t bytes = file->watch_->bytes();
  if (bytes == 0) return file;
  void* const map =
      mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file->file_.get(), 0);
  if (map == MAP_FAILED) return FileError(errno, "map", path);
  file->data_ = static_cast<const uint8_t*>(map);
  file->guard_.emplace(map, bytes);
  return file;
}

MappedFile::~MappedFile() {
  guard_.reset();
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), watch_->bytes());
}

}  // namespace millrace::storage
