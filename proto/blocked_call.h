// How a server says that it has ended a call because the client took nothing of
// it for the server's send_timeout. gRPC lets a server end such a call with a
// code (Unavailable) and a sentence alone, without an ErrorDetail, so that the
// sentence is part of the protocol.

#ifndef MILLRACE_PROTO_BLOCKED_CALL_H_
#define MILLRACE_PROTO_BLOCKED_CALL_H_

#include "absl/strings/string_view.h"

namespace millrace {

// Begins the sentence.
inline constexpr absl::string_view kTookNothing =
    "the client has taken nothing for ";

}  // namespace millrace

#endif  // MILLRACE_PROTO_BLOCKED_CALL_H_
