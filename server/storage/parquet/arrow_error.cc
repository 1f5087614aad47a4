#include "server/storage/parquet/arrow_error.h"

#include <arrow/util/io_util.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"

namespace millrace {
namespace {

// Arrow's messages may have several lines; logs have one.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

// Whether the system has failed to read: the file itself may be whole. EINVAL
// and EOVERFLOW are answers to an offset that a damaged footer has asked for.
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

}  // namespace millrace
