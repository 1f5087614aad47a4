#include "server/storage/sorted_glob.h"

#include <glob.h>

#include <algorithm>
#include <cstddef>

namespace millrace::storage {

std::vector<std::string> SortedGlob(const std::string& pattern) {
  glob_t matches{};
  const int rc = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  std::vector<std::string> paths;
  for (size_t i = 0; rc == 0 && i < matches.gl_pathc; ++i) {
    paths.emplace_back(matches.gl_pathv[i]);
  }
  globfree(&matches);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace millrace::storage
