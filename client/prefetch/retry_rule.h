// The retry rule: ActionFor says what to do about a call that failed. This is
// the rule of the one place that retries (BatchFetcher):
//
//   Unavailable            retry on another server, or after a backoff
//   any status that no millrace-server sends (ConnectionDoubt::kDamaged)
//                          retry over a new connection; the same status over a
//                          new connection is judged by its code
//   ResourceExhausted      with a delay of the server: retry after the delay
//   DataLoss               without an ErrorDetail of the server: the answer was
//                          damaged on the way. An ErrorDetail of any code may
//                          say that the request was damaged. Either way: retry
//                          once for each step, on another server if there is
//                          one
//   FailedPrecondition, NotFound, Unimplemented
//                          the server does not serve the plan: it is left out
//                          while other servers may serve it
//   DataLoss with an ErrorDetail of the server
//                          a sample cannot be read: once more for each step,
//                          alone (BatchFetcher), then final
//   anything else          final, unless calls at other servers owe the same
//                          steps: then those calls decide
//
// What it is not: it retries nothing (BatchFetcher), and sets no delay
// (retry_schedules.h).
//
// Pure functions, safe from any thread.
//
//   const FailureAction action = ActionFor(status, facts);

#ifndef MILLRACE_CLIENT_PREFETCH_RETRY_RULE_H_
#define MILLRACE_CLIENT_PREFETCH_RETRY_RULE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace::prefetch {

enum class FailureAction {
  kRetry,          // the server or the connection to it is gone
  kPause,          // the server asks for a pause
  kDamaged,        // the steps are requested again
  kLeaveOut,       // the server does not serve the plan, other servers may
  kLeaveToOthers,  // other calls owe the same steps
  kFinal,          // no retry helps
};

// Facts about the call besides its status.
struct FailureFacts {
  // The steps of a damaged request or answer may be requested again.
  bool may_retry_damaged = false;
  // Other calls owe all steps that this call owes, or the batch that was
  // arriving.
  bool requested_from_others = false;
  // A server other than this one may serve the plan.
  bool others_may_serve = false;
  // The call went over a connection that replaced a failed one, and the server
  // has delivered nothing since.
  bool over_new_connection = false;
};

// The answer could not be parsed or did not fit, and the status does not come
// from a server; or a server says that the request was damaged.
bool IsDamaged(const absl::Status& status);

// A server's error about a sample of a batch, and so about one step: not about
// the server, its plan or the connection.
bool ConcernsSample(const absl::Status& status);

FailureAction ActionFor(const absl::Status& status, const FailureFacts& facts);

// The error that a consumer gets for kFinal. `stage` is the stage that noticed
// the failure, if the server names none. Codes with a meaning of their own for
// callers of Next() (OutOfRange, DeadlineExceeded, Unavailable, Cancelled)
// become Internal.
absl::Status FinalError(absl::string_view address, const absl::Status& status,
                        absl::string_view stage);

// DataLoss for a kFinal that damage caused: `damages` requests or answers of
// the step at `position` were damaged. Gives the number, and what to check.
absl::Status FinalDamageError(absl::string_view address,
                              const absl::Status& status,
                              absl::string_view stage,
                              absl::string_view position, uint32_t damages);

}  // namespace millrace::prefetch

#endif  // MILLRACE_CLIENT_PREFETCH_RETRY_RULE_H_
