// OpenHostLoader opens a pipeline on the data servers of an endpoint over gRPC,
// and returns the HostLoader that receives its batches.
//
// What it is not: the loader itself is client/prefetch/, which knows no gRPC.
//
// Safe from any thread.
//
//   HostLoaderOptions options;
//   options.endpoint = "data-1:7001,data-2:7001";
//   options.spec = spec;
//   MR_ASSIGN_OR_RETURN(auto loader, OpenHostLoader(options));

#ifndef MILLRACE_CLIENT_RECEIVE_OPEN_HOST_LOADER_H_
#define MILLRACE_CLIENT_RECEIVE_OPEN_HOST_LOADER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/unary_call.h"

namespace millrace::receive {

// Blocks until a server has opened the plan, for open_timeout at most.
// - InvalidArgument: an option is invalid, or the servers refuse the spec.
// - NotFound: no server has the dataset or the preset.
// - FailedPrecondition: the servers disagree about the plan, or it is not the
//   expected one.
// - Unavailable, DeadlineExceeded: no server answered.
// - Cancelled: `cancelled`, if given, was set. A DNS server that does not
// answer
//   may delay this.
absl::StatusOr<std::unique_ptr<HostLoader>> OpenHostLoader(
    const HostLoaderOptions& options, const CancelFlag* cancelled = nullptr);

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_OPEN_HOST_LOADER_H_
