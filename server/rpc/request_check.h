// The checks that every call must pass before the server works for it. Pure.
// They keep a job from servers that would send other bytes: servers with
// another protocol, another plan, or other data under the same name.

#ifndef MILLRACE_SERVER_RPC_REQUEST_CHECK_H_
#define MILLRACE_SERVER_RPC_REQUEST_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::rpc {

// FailedPrecondition: says what the client speaks and what this server does.
absl::Status CheckProtocolVersion(uint32_t client_version);

// Checks that `request` is for the plan that this server has built as `plan`.
// InvalidArgument: plan hash or fingerprint is missing, no step is requested,
// or the rank is outside the world size. FailedPrecondition: the plan, the data
// or the image decoders differ; the message says which. OutOfRange: a step
// after the end of the epoch.
absl::Status CheckPlan(const GetBatchesRequest& request,
                       const OpenResponse& plan);

// What a call is told when this server cannot build its pipeline: `status`.
// FailedPrecondition instead of InvalidArgument when the job has opened the
// plan elsewhere: its pipeline is right, so this server has other data. The
// client then uses other servers.
absl::Status PlanRefusal(const GetBatchesRequest& request,
                         const absl::Status& status);

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_REQUEST_CHECK_H_
