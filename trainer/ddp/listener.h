// A TCP socket that listens on a free port, so that no other process can take
// the port before its users come.
//
//   MR_ASSIGN_OR_RETURN(ListeningSocket listener,
//   ListenOnFreePort(/*loopback=*/true)); Publish(listener.port);

#ifndef MILLRACE_TRAINER_DDP_LISTENER_H_
#define MILLRACE_TRAINER_DDP_LISTENER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace millrace::ddp {

struct ListeningSocket {
  UniqueFd fd;  // accept() does not block
  uint16_t port = 0;
};

// On 127.0.0.1, or on all addresses of the machine: those of IPv6 and IPv4
// where it has both. Unavailable: the system refuses.
absl::StatusOr<ListeningSocket> ListenOnFreePort(bool loopback);

}  // namespace millrace::ddp

#endif  // MILLRACE_TRAINER_DDP_LISTENER_H_
