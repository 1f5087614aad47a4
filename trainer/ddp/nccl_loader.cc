#include "trainer/ddp/nccl_loader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/cuda_runtime.h"
#include "common/plug_in.h"
#include "common/status_macros.h"

namespace millrace::ddp {
namespace {

// The name that tools/build gives it.
constexpr char kFile[] = "libmillrace_nccl.so";

}  // namespace

std::vector<std::string> NcclPluginPaths() {
  std::vector<std::string> paths = PlugInPaths(kFile);
  const std::string libtorch = device::LibtorchFolder();
  if (!libtorch.empty()) {
    paths.insert(paths.begin(), absl::StrCat(libtorch, "/", kFile));
  }
  return paths;
}

absl::StatusOr<MakeNcclBackend*> LoadNccl(
    const std::vector<std::string>& paths) {
  PlugIn plug_in;
  plug_in.file = kFile;
  plug_in.function = kMakeNcclBackend;
  plug_in.user = "several ranks on CUDA";
  plug_in.where_missing =
      "tools/build puts it there; or use one rank, or --device=cpu";
  plug_in.where_broken =
      "it needs libtorch_cuda.so of the version that it was built with";
  MR_ASSIGN_OR_RETURN(void* function, OpenPlugIn(plug_in, paths));
  return reinterpret_cast<MakeNcclBackend*>(function);
}

absl::StatusOr<c10::intrusive_ptr<c10d::Backend>> ConnectNccl(
    MakeNcclBackend* make, const NcclRequest& request) {
  NcclReply reply;
  if (make(&request, &reply) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "rank ", request.rank, " of ", request.size,
        " could not connect to the others with NCCL: ", reply.error));
  }
  return std::move(reply.backend);
}

}  // namespace millrace::ddp
