#include "server/port_file.h"

#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/output_file.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "common/write_target.h"

namespace millrace {

absl::Status RemovePortFile(const std::string& path) {
  MR_RETURN_IF_ERROR(
      UsageError(CheckOutputFile("--port_file", path, OutputKind::kPort)));
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

}  // namespace millrace
