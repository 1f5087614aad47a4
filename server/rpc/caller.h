// The identity of a caller, as far as a server can know it: the client's id, or
// its connection if there is no id, and its address. Pure.

#ifndef MILLRACE_SERVER_RPC_CALLER_H_
#define MILLRACE_SERVER_RPC_CALLER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/pipeline/engine.h"

namespace millrace::rpc {

// `peer` as gRPC names it ("ipv4:10.0.0.1:4711"), `client_id` as the request
// has it, maybe empty. InvalidArgument: an id of too many bytes.
absl::StatusOr<pipeline::Caller> CallerOf(absl::string_view peer,
                                          absl::string_view client_id);

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_CALLER_H_
