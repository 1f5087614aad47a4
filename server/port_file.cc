#include "server/port_file.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/folder.h"
#include "common/output_file.h"
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

absl::Status CannotPublish(const absl::Status& why) {
  return absl::UnavailableError(
      absl::StrCat("the server cannot publish its port: ", why.message()));
}

}  // namespace

absl::Status CheckPortFile(const std::string& path) {
  if (IsFolder(path)) return Refused(path, "the path is that of a folder");
  const absl::Status kind =
      CheckOutputFile("--port_file", path, OutputKind::kPort);
  if (kind.ok()) return kind;
  // A file that this process cannot read may be an earlier server's, unless it
  // is too large.
  std::error_code error;
  if (!absl::IsInvalidArgument(kind) &&
      std::filesystem::file_size(path, error) <= kMaxPortFileBytes) {
    return absl::OkStatus();
  }
  return Refused(path,
                 "the file exists and is not a port file (a port file has one "
                 "line with a number)");
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
