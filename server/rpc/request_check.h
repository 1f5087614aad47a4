// The checks that every call must pass before any work is done for it. Pure.
// They keep jobs apart from servers that would give them other bytes: of
// another protocol, another plan, or other data under the same name.

#ifndef MILLRACE_SERVER_RPC_REQUEST_CHECK_H_
#define MILLRACE_SERVER_RPC_REQUEST_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

// FailedPrecondition: says what the client speaks and what this server does.
absl::Status CheckProtocolVersion(uint32_t client_version);

// Whether `request` asks for the plan that this server has built as `plan`.
// InvalidArgument: plan hash or fingerprint is missing, no step is asked for,
// or the rank is none of the world. FailedPrecondition: they, or the image
// decoders, differ; says which and what it means.
// OutOfRange: a step past the end of the epoch.
absl::Status CheckPlan(const GetBatchesRequest& request,
                       const OpenResponse& plan);

}  // namespace millrace

#endif  // MILLRACE_SERVER_RPC_REQUEST_CHECK_H_
