// What a failed call means to the client: the server's own status, or gRPC's,
// in words that a person can use.

#ifndef MILLRACE_CLIENT_RECEIVE_CALL_ERROR_H_
#define MILLRACE_CLIENT_RECEIVE_CALL_ERROR_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace millrace {

// `status` is not OK. A call that we did not cancel and that ended Cancelled
// was given up by the server (it is stopping, or our side was blocked for too
// long): that is Unavailable.
//
// An Unavailable one says why there is no connection, and what closes one that
// was just made: a server above its limits of connections does, and says so in
// its log alone.
//
// A status without ErrorDetail is not the server's. gRPC or a proxy on the way
// made it, of a reset stream (HTTP/2's codes 1 and 2 become INTERNAL, 11
// becomes RESOURCE_EXHAUSTED), of an HTTP answer that is no gRPC and the like:
// that is Unavailable, too, whatever its code. Two keep theirs, because asking
// again does not help:
//   Unimplemented      nobody knows the method: another kind of server, or no
//                      route to one
//   ResourceExhausted  the server takes no request of this size
// With the status comes a ConnectionDoubt: kDamaged where neither a server nor
// a connection that ends gives such a status, so that something on the way made
// it, or damaged it (also the first bytes of a connection); kSuspect for
// Cancelled, and where the server says that nothing of the call was taken
// (kTookNothing); kLost where the connection ended, also before the server said
// a word.
//
// `request_bytes` is the size of the call's request. `answer_seed` is that of
// the request's digest (ToGrpcStatus()); without it no digest is checked.
// DataLoss: a request that every server takes was refused for its size, so its
// length was damaged on the way; or the digest of the status does not match.
absl::Status CallError(const grpc::Status& status, size_t request_bytes,
                       std::optional<uint64_t> answer_seed = std::nullopt);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_CALL_ERROR_H_
