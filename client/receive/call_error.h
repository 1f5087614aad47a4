// What a failed call means to the client: the server's own status, or gRPC's,
// in words that a person can use.

#ifndef MILLRACE_CLIENT_RECEIVE_CALL_ERROR_H_
#define MILLRACE_CLIENT_RECEIVE_CALL_ERROR_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace millrace {

// `status` is not OK. A call that we did not cancel and that ended Cancelled
// was given up by the server (it is stopping, or our side was blocked for too
// long): that is Unavailable.
absl::Status CallError(const grpc::Status& status);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_RECEIVE_CALL_ERROR_H_
