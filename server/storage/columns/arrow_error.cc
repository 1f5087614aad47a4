#include "server/storage/columns/arrow_error.h"

#include <arrow/util/io_util.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"

namespace millrace::storage {
namespace {

// Arrow's messages may have several lines; a log message has one line.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

// Whether the system failed to read, so that the file may be intact. EINVAL and
// EOVERFLOW are excluded: they are caused by an offset from a damaged footer.
bool SystemFailed(int error) {
  return error != 0 && error != EINVAL && error != EOVERFLOW;
}

}  // namespace

absl::Status ArrowReadError(const arrow::Status& status,
                            absl::string_view action, absl::string_view path) {
  const int error = arrow::internal::ErrnoFromStatus(status);
  if (error != ENOMEM && SystemFailed(error)) {
    return absl::UnavailableError(absl::StrCat(
        FileError(error, action, path).message(),
        "; the file may be undamaged: check its disk or network and retry"));
  }
  const std::string text = absl::StrCat("cannot ", action, " ", path, ": ",
                                        OneLine(status.message()));
  if (error == ENOMEM || status.IsOutOfMemory()) {
    return absl::ResourceExhaustedError(text);
  }
  if (status.IsNotImplemented()) return absl::UnimplementedError(text);
  return absl::DataLossError(
      absl::StrCat(text, "; copy the file again, or write it again"));
}

absl::Status ArrowWriteError(const arrow::Status& status,
                             absl::string_view action, absl::string_view path) {
  if (const int error = arrow::internal::ErrnoFromStatus(status); error != 0) {
    return FileError(error, action, path);
  }
  return absl::InternalError(absl::StrCat("cannot ", action, " ", path, ": ",
                                          OneLine(status.message())));
}

}  // namespace millrace::storage
