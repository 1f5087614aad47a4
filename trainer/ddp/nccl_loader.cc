#include "trainer/ddp/nccl_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/torch/cuda_runtime.h"

namespace millrace {
namespace {

// As tools/build names it.
constexpr char kFile[] = "libmillrace_nccl.so";

}  // namespace

std::vector<std::string> NcclPluginPaths() {
  std::vector<std::string> paths;
  const std::string libtorch = LibtorchFolder();
  if (!libtorch.empty()) paths.push_back(absl::StrCat(libtorch, "/", kFile));
  std::error_code error;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::filesystem::path folder = program.parent_path();
    paths.push_back((folder / "lib" / kFile).string());
    paths.push_back((folder.parent_path() / "lib" / kFile).string());
  }
  return paths;
}

absl::StatusOr<MakeNcclBackend*> LoadNccl(
    const std::vector<std::string>& paths) {
  std::string path;
  for (const std::string& candidate : paths) {
    std::error_code error;
    if (!std::filesystem::exists(candidate, error)) continue;
    path = candidate;
    break;
  }
  if (path.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "several ranks on CUDA need ", kFile, ", and there is no ",
        absl::StrJoin(paths, " and no "),
        "; tools/build puts it there; or use one rank, or --device=cpu"));
  }
  // RTLD_NOW resolves all of its symbols at once: a symbol that
  // libtorch_cuda.so of another version lacks is an error here and not the end
  // of the process later. Never closed: threads of the backend run its code.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " does not load: ", dlerror(),
        "; it needs libtorch_cuda.so of the version that it was built with"));
  }
  void* function = dlsym(library, kMakeNcclBackend);
  if (function == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has no ", kMakeNcclBackend,
                     ", so it belongs to another version of millrace-train; "
                     "copy both from the same build"));
  }
  return reinterpret_cast<MakeNcclBackend*>(function);
}

absl::StatusOr<c10::intrusive_ptr<c10d::Backend>> ConnectNccl(
    MakeNcclBackend* make, const NcclRequest& request) {
  NcclReply reply;
  if (make(&request, &reply) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "rank ", request.rank, " of ", request.size,
        " could not be connected to the others by NCCL: ", reply.error));
  }
  return std::move(reply.backend);
}

}  // namespace millrace
