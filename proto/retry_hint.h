// The retry hint: the delay that a server attaches to a refusal that passes: no
// memory now, too many calls, no free thread. A ResourceExhausted with a delay
// is retried by the client's window; one without is final.

#ifndef MILLRACE_PROTO_RETRY_HINT_H_
#define MILLRACE_PROTO_RETRY_HINT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// `status` with the delay after which the client may retry. `stage` names
// the component that refuses, unless the status carries one already. OK stays
// OK.
absl::Status WithRetryHint(absl::Status status, absl::string_view stage);

}  // namespace millrace

#endif  // MILLRACE_PROTO_RETRY_HINT_H_
