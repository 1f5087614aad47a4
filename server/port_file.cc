#include "server/port_file.h"

#include <sys/stat.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/count_text.h"
#include "common/read_file.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "common/write_target.h"

namespace millrace::server {
namespace {

// Size of the longest port file: "65535" and a newline.
constexpr uint64_t kMaxPortFileBytes = 6;

absl::Status Refused(const std::string& path, absl::string_view reason) {
  return UsageError(absl::InvalidArgumentError(
      absl::StrCat("flag --port_file=", path, ": ", reason,
                   ", and the server would replace it: name another file")));
}

// Digits and a newline. An empty file is one that a script has created.
bool IsPortText(absl::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  return true;
}

}  // namespace

absl::Status CheckPortFile(const std::string& path) {
  struct stat info = {};
  if (IsSpecialFile(path) || stat(path.c_str(), &info) != 0) {
    return absl::OkStatus();
  }
  if (S_ISDIR(info.st_mode)) {
    return Refused(path, "the path is that of a folder");
  }
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (bytes > kMaxPortFileBytes) {
    return Refused(path,
                   absl::StrCat("the file exists and is no port file (it has ",
                                CountText(bytes, "byte"),
                                ", a port file one line with a number)"));
  }
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxPortFileBytes);
  // A file that this process cannot read may be an earlier server's.
  if (text.ok() && !IsPortText(*text)) {
    return Refused(path,
                   "the file exists and is no port file (a port file has one "
                   "line with a number)");
  }
  return absl::OkStatus();
}

absl::Status CheckPortFileIsNoDataset(const std::string& path,
                                      absl::string_view name,
                                      absl::string_view uri) {
  const size_t colon = uri.find(':');
  if (colon == absl::string_view::npos || path.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> file = RealPath(path);
  const absl::StatusOr<std::string> data = RealPath(uri.substr(colon + 1));
  if (!file.ok() || !data.ok() || *file != *data) return absl::OkStatus();
  return Refused(path, absl::StrCat("the path is that of dataset ", name));
}

absl::Status RemovePortFile(const std::string& path) {
  MR_RETURN_IF_ERROR(CheckPortFile(path));
  const absl::Status removed = RemoveOldFile(path);
  if (removed.ok()) return removed;
  return absl::UnavailableError(
      absl::StrCat("the port file: ", removed.message()));
}

absl::Status WritePortFile(const std::string& path, int port) {
  // Not synced: after a power failure no server has this port.
  const absl::Status written =
      WriteFileAtomically(path, absl::StrCat(port, "\n"), Lasts::kThroughCrash);
  if (written.ok()) return written;
  return absl::UnavailableError(
      absl::StrCat("the server cannot publish its port: ", written.message()));
}

}  // namespace millrace::server
