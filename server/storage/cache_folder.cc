#include "server/storage/cache_folder.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/file_error.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kOff = "off";

}  // namespace

std::string CacheFolder(const std::string& cache_dir) {
  if (cache_dir == kOff) return "";
  if (!cache_dir.empty()) return cache_dir;
  // The specification of XDG has relative paths ignored.
  const char* const xdg = getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && xdg[0] == '/') return absl::StrCat(xdg, "/millrace");
  const char* const home = getenv("HOME");
  if (home != nullptr && home[0] == '/') {
    return absl::StrCat(home, "/.cache/millrace");
  }
  return "";
}

absl::StatusOr<std::string> MakeCacheFolder(const std::string& cache_dir) {
  const std::string cache_folder = CacheFolder(cache_dir);
  if (cache_folder.empty()) {
    return absl::FailedPreconditionError(
        "there is no cache folder; name one with --cache_dir=DIR");
  }
  std::error_code error;
  if (std::filesystem::create_directories(cache_folder, error)) {
    // Names of files may be private.
    chmod(cache_folder.c_str(), S_IRWXU);
  }
  if (error) return FileError(error.value(), "create folder", cache_folder);
  if (access(cache_folder.c_str(), W_OK | X_OK) != 0) {
    return FileError(errno, "write to folder", cache_folder);
  }
  return cache_folder;
}

}  // namespace millrace::storage
