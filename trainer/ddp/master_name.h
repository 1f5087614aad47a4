// AwaitMasterName waits until the name of rank 0's machine has an address.
// c10d's store retries a name without an address for all of its timeout, as it
// does a machine that does not listen yet, and then names neither.
//
// What it is not: it connects to nothing. A machine that does not listen yet is
// the store's to wait for.
//
// Blocks. Any thread.
//
//   MR_RETURN_IF_ERROR(AwaitMasterName("gpu-1", absl::Seconds(15)));

#ifndef MILLRACE_TRAINER_DDP_MASTER_NAME_H_
#define MILLRACE_TRAINER_DDP_MASTER_NAME_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millrace::ddp {

// Looks a name up once. Empty: it has an address. Otherwise the reason.
using ResolveName = std::function<std::string(const std::string& host)>;

// getaddrinfo().
std::string WhyUnresolved(const std::string& host);

// OK: `host` is an address, or a name that has one. A name may be late, as that
// of a pod that Kubernetes has just started: it is looked up again for
// `patience`, at least once, and the log names it. A lookup that the system
// does not answer takes as long as the system waits for it. Unavailable: the
// name has no address; the message names it, the reason and what to do.
absl::Status AwaitMasterName(const std::string& host, absl::Duration patience,
                             const ResolveName& resolve = WhyUnresolved);

}  // namespace millrace::ddp

#endif  // MILLRACE_TRAINER_DDP_MASTER_NAME_H_
