// CallError turns the status of a failed call into an error for the client: the
// server's own status, or gRPC's in words that a person can act on.
//
// What it is not: it does not decide about retries (client/prefetch/
// retry_rule.h does).
//
// Pure function, safe from any thread.
//
//   if (!status.ok()) return CallError(status, request.size(), answer_seed);

#ifndef MILLRACE_CLIENT_RECEIVE_CALL_ERROR_H_
#define MILLRACE_CLIENT_RECEIVE_CALL_ERROR_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace millrace::receive {

// `status` is not OK. A call that ended Cancelled, and that this client did not
// cancel, was ended by the server (it is stopping, or the client took nothing
// for too long): that becomes Unavailable.
//
// An Unavailable error says why there is no connection. When a new connection
// was closed at once, it names the likely reason: a server closes connections
// above its limits, and says so only in its own log.
//
// A status without ErrorDetail does not come from the server. gRPC or a proxy
// on the way made it from a reset stream (HTTP/2's codes 1 and 2 become
// INTERNAL, 11 becomes RESOURCE_EXHAUSTED), from an HTTP answer that is not
// gRPC, or the like. It becomes Unavailable, whatever its code, except for two
// codes for which a retry does not help:
//   Unimplemented      the method is unknown: another kind of server, or no
//                      route to a server
//   ResourceExhausted  the server accepts no request of this size
//
// The status has a ConnectionDoubt. kDamaged: neither a server nor the end of a
// connection causes such a status, so something on the way made or damaged it
// (also the first bytes of a connection). kSuspect: Cancelled, or the server
// says that the client took nothing of the call (kTookNothing). kLost: the
// connection ended, also before the server sent anything.
//
// `request_bytes` is the size of the request. `answer_seed` is the seed of the
// request's digest (ToGrpcStatus()); without it no digest is checked. DataLoss:
// a request that every server accepts was refused for its size, so its length
// was damaged on the way; or the digest of the status does not match.
absl::Status CallError(const grpc::Status& status, size_t request_bytes,
                       std::optional<uint64_t> answer_seed = std::nullopt);

}  // namespace millrace::receive

#endif  // MILLRACE_CLIENT_RECEIVE_CALL_ERROR_H_
