#include "server/port_file.h"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
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

bool AreSame(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  // One of them may not exist.
  const auto full_a = std::filesystem::absolute(a, error);
  if (error) return false;
  const auto full_b = std::filesystem::absolute(b, error);
  return !error && full_a.lexically_normal() == full_b.lexically_normal();
}

absl::Status CannotPublish(const absl::Status& why) {
  return absl::UnavailableError(
      absl::StrCat("the server cannot publish its port: ", why.message()));
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
  if (!AreSame(path, std::string(uri.substr(colon + 1)))) {
    return absl::OkStatus();
  }
  return Refused(path, absl::StrCat("the path is that of dataset ", name));
}

absl::Status RemovePortFile(const std::string& path) {
  MR_RETURN_IF_ERROR(CheckPortFile(path));
  const absl::Status removed = RemoveOldFile(path);
  if (removed.ok()) return removed;
  return absl::UnavailableError(
      absl::StrCat("the port file: ", removed.message()));
}

absl::StatusOr<PortFile> PortFile::Open(const std::string& path) {
  PortFile file;
  file.path_ = path;
  if (path.empty() || !IsSpecialFile(path)) return file;
  absl::StatusOr<std::unique_ptr<AtomicFile>> special =
      AtomicFile::Create(path, Lasts::kThroughCrash);
  if (!special.ok()) return CannotPublish(special.status());
  file.special_ = *std::move(special);
  return file;
}

absl::Status PortFile::Write(int port) {
  if (path_.empty()) return absl::OkStatus();
  const std::string text = absl::StrCat(port, "\n");
  if (special_ == nullptr) {
    // Not synced: after a power failure no server has this port.
    const absl::Status written =
        WriteFileAtomically(path_, text, Lasts::kThroughCrash);
    return written.ok() ? written : CannotPublish(written);
  }
  absl::Status written = special_->Write(text);
  if (written.ok()) written = special_->Commit();
  // The reader of a pipe waits for its end.
  special_.reset();
  return written.ok() ? written : CannotPublish(written);
}

}  // namespace millrace::server
