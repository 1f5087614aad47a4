#include "server/file_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace millrace {

uint64_t RaiseFileLimit(uint64_t wanted) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const uint64_t before = limit.rlim_cur;  // RLIM_INFINITY is the largest
  limit.rlim_cur = std::min<uint64_t>(wanted, limit.rlim_max);
  if (limit.rlim_cur <= before) return before;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

}  // namespace millrace
