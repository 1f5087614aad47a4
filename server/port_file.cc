#include "server/port_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/status_macros.h"
#include "common/write_target.h"

namespace millrace {

absl::Status RemovePortFile(const std::string& path) {
  if (IsSpecialFile(path)) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const std::string target, FollowLinks(path));
  if (unlink(target.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot remove the old port file ",
                                             path, ": ", std::strerror(errno)));
}

absl::Status WritePortFile(const std::string& path, int port) {
  // After a loss of power no server has this port.
  const absl::Status written =
      WriteFileAtomically(path, absl::StrCat(port, "\n"), Lasts::kThroughCrash);
  if (written.ok()) return written;
  return absl::UnavailableError(
      absl::StrCat("the server cannot publish its port: ", written.message()));
}

}  // namespace millrace
