#include "common/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace millrace {

absl::Status FlushStandardOutput() {
  if (std::fflush(stdout) != 0) {
    const int reason = errno;
    return absl::DataLossError(absl::StrCat(
        "cannot write to standard output: ", std::strerror(reason)));
  }
  // stdio drops the text of a failed write: a later flush succeeds, and only
  // the stream's mark remembers it.
  if (std::ferror(stdout) != 0) {
    return absl::DataLossError(
        "cannot write to standard output: an earlier write failed");
  }
  return absl::OkStatus();
}

}  // namespace millrace
