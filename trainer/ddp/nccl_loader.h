// Opens libmillrace_nccl.so and creates NCCL's backend with it (see
// nccl_plugin.h). Used only when several ranks run on GPUs.
//
//   MR_ASSIGN_OR_RETURN(MakeNcclBackend* make, LoadNccl(NcclPluginPaths()));
//   MR_ASSIGN_OR_RETURN(auto backend, ConnectNccl(make, request));

#ifndef MILLRACE_TRAINER_DDP_NCCL_LOADER_H_
#define MILLRACE_TRAINER_DDP_NCCL_LOADER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/ddp/nccl_plugin.h"

namespace millrace::ddp {

// Paths of the library, in order of preference: beside libtorch_cpu.so, in lib/
// beside the program, in lib/ beside the program's folder.
std::vector<std::string> NcclPluginPaths();

// Opens the first of these files that exists and never closes it. Call
// LoadCudaRuntime() first. NotFound: there is none. FailedPrecondition: it does
// not load, or belongs to another version. Both name the file.
absl::StatusOr<MakeNcclBackend*> LoadNccl(
    const std::vector<std::string>& paths);

// Waits for all ranks. Unavailable: they could not be connected.
absl::StatusOr<c10::intrusive_ptr<c10d::Backend>> ConnectNccl(
    MakeNcclBackend* make, const NcclRequest& request);

}  // namespace millrace::ddp

#endif  // MILLRACE_TRAINER_DDP_NCCL_LOADER_H_
