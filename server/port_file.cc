#include "server/port_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
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
  // In the same folder: a rename within one file system is atomic.
  // A device or pipe is written in place: nothing is renamed over it.
  const bool in_place = IsSpecialFile(path);
  MR_ASSIGN_OR_RETURN(const std::string target,
                      in_place ? path : FollowLinks(path));
  const std::string temporary =
      in_place ? path : absl::StrCat(target, ".", getpid());
  const auto failed = [&](absl::string_view what) {
    const int reason = errno;
    if (!in_place) unlink(temporary.c_str());
    return absl::UnavailableError(absl::StrCat(
        "cannot ", what, " the port file ", path, ": ", std::strerror(reason)));
  };
  std::FILE* file = std::fopen(temporary.c_str(), "we");
  if (file == nullptr) return failed("create");
  const bool written = std::fprintf(file, "%d\n", port) > 0;
  if (std::fclose(file) != 0 || !written) return failed("write");
  if (!in_place && std::rename(temporary.c_str(), target.c_str()) != 0) {
    return failed("rename");
  }
  return absl::OkStatus();
}

}  // namespace millrace
