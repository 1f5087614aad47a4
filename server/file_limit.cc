#include "server/file_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace millrace::server {
namespace {

// Descriptors that a server with one dataset and one client needs: 10 of gRPC,
// sockets and the accept loop, and a few for the dataset, the port file, the
// watchdog's probe and the client.
constexpr uint64_t kNeededFiles = 17;

}  // namespace

uint64_t RaiseFileLimit(uint64_t wanted) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const uint64_t before = limit.rlim_cur;  // RLIM_INFINITY is the largest
  limit.rlim_cur = std::min<uint64_t>(wanted, limit.rlim_max);
  if (limit.rlim_cur <= before) return before;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

uint64_t FileLimit() { return RaiseFileLimit(0); }

uint64_t OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return 0;
  // The listing has a descriptor too.
  return std::distance(files, std::filesystem::directory_iterator()) - 1;
}

absl::Status CheckFileLimit(uint64_t limit, uint64_t open) {
  const uint64_t needed = open + kNeededFiles;
  if (limit == 0 || limit >= needed) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "the limit of open files is ", limit,
      " (ulimit -n), too low for the server, which needs ", needed,
      " and more for each connection and shard: raise the limit (ulimit -n, "
      "LimitNOFILE= of systemd, --ulimit nofile= of a container)"));
}

}  // namespace millrace::server
