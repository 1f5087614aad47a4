// Says what follows from a call that failed. This is the rule of the one place
// that retries:
//
//   Unavailable            retry elsewhere, or after a backoff
//   whatever no millrace-server says (ConnectionDoubt::kDamaged)
//                          the same over a new connection; what a new one says,
//                          too, is judged by its code
//   ResourceExhausted      with the server's delay: retry after it
//   DataLoss               without a server's ErrorDetail, the answer was
//                          damaged on the way; any code whose ErrorDetail says
//                          that the request was: retry once for a step, on
//                          another server where there is one
//   FailedPrecondition, NotFound, Unimplemented
//                          the server does not serve the plan: left out while
//                          others may
//   anything else          final, unless calls at other servers owe the same
//                          steps: then those decide
//
// Pure functions.

#ifndef MILLRACE_CLIENT_PREFETCH_CALL_FAILURE_H_
#define MILLRACE_CLIENT_PREFETCH_CALL_FAILURE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

enum class FailureAction {
  kRetry,          // the server or the way to it is gone
  kPause,          // the server asks for a pause
  kDamaged,        // the steps are requested again
  kLeaveOut,       // the server does not serve the plan, others may
  kLeaveToOthers,  // other calls owe the same steps
  kFinal,          // the error ends everything
};

// What is known of the call besides its status.
struct FailureFacts {
  // The steps of a damaged request or answer may be requested again.
  bool may_retry_damaged = false;
  // Other calls owe all that this one owes, or the batch that was arriving.
  bool requested_from_others = false;
  // A server other than this one may serve the plan.
  bool others_may_serve = false;
  // The call went over a connection that was made because the one before
  // failed, and the server has delivered nothing since.
  bool over_new_connection = false;
};

// The answer could not be parsed or did not fit, and no server says so itself;
// or a server says so of the request.
bool IsDamaged(const absl::Status& status);

FailureAction ActionFor(const absl::Status& status, const FailureFacts& facts);

// The error that a consumer gets for kFinal. `stage` is where the failure was
// noticed, where the server does not say. Codes that mean something of their
// own to a caller of Next() (OutOfRange, DeadlineExceeded, Unavailable,
// Cancelled) become Internal.
absl::Status FinalError(absl::string_view address, const absl::Status& status,
                        absl::string_view stage);

// DataLoss for kFinal of damage: `damages` requests or answers of the step at
// `position` have been damaged. Says how many, and what to check.
absl::Status FinalDamageError(absl::string_view address,
                              const absl::Status& status,
                              absl::string_view stage,
                              absl::string_view position, uint32_t damages);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_CALL_FAILURE_H_
