#include "common/plug_in.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace {

std::vector<std::string> PlugInPaths(absl::string_view file) {
  std::error_code error;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path folder = program.parent_path();
  const std::string name(file);
  return {(folder / "lib" / name).string(),
          (folder.parent_path() / "lib" / name).string()};
}

absl::StatusOr<void*> OpenPlugIn(const PlugIn& plug_in,
                                 const std::vector<std::string>& paths) {
  const auto path =
      std::find_if(paths.begin(), paths.end(), [](const std::string& file) {
        std::error_code error;
        return std::filesystem::exists(file, error);
      });
  if (path == paths.end()) {
    return absl::NotFoundError(absl::StrCat(
        plug_in.user, " need ", plug_in.file,
        ", which is not found: there is no ", absl::StrJoin(paths, " and no "),
        "; ", plug_in.where_missing));
  }
  // All of its symbols at once: what a library of another version lacks is an
  // error here and not the end of the process later.
  void* const library = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        *path, " does not load: ", dlerror(), "; ", plug_in.where_broken));
  }
  void* const function = dlsym(library, plug_in.function.c_str());
  if (function == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(*path, " has no ", plug_in.function,
                     ": it belongs to another version of this program; copy "
                     "both from the same build"));
  }
  return function;
}

}  // namespace millrace
