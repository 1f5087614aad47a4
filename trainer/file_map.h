// FileMap maps a whole file for reading, for files that are read more than once
// and too large to copy. A file that is truncated meanwhile does not end the
// process (common/map_guard.h): CheckWhole() reports it.
//
// Not thread-safe. Owns the map; views of bytes() must not outlive it.
//
//   MR_ASSIGN_OR_RETURN(const auto file, FileMap::Open(path));
//   Use(file->bytes());
//   MR_RETURN_IF_ERROR(file->CheckWhole());

#ifndef MILLRACE_TRAINER_FILE_MAP_H_
#define MILLRACE_TRAINER_FILE_MAP_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/map_guard.h"

namespace millrace::trainer {

class FileMap {
 public:
  // Errors name the file and are those of FileError (common/file_error.h).
  // InvalidArgument: it is no regular file.
  static absl::StatusOr<std::unique_ptr<const FileMap>> Open(
      const std::string& path);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  absl::string_view bytes() const { return {data_, size_}; }

  // DataLoss: the file was truncated, or its disk failed, while it was mapped:
  // some of the bytes that were read may be zeros.
  absl::Status CheckWhole() const;

 private:
  FileMap(std::string path, const char* data, size_t size);

  const std::string path_;
  const char* const data_;  // null: the file is empty
  const size_t size_;
  std::optional<MapGuard> guard_;  // absent: nothing is mapped
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_FILE_MAP_H_
