// ListenSockets are the sockets on which a server accepts connections: one for
// each address of its host name. The server opens them itself for two reasons:
// gRPC reports only that it did not start, and gRPC's accept loop stops for
// ever once the process has run out of descriptors.
//
// A wildcard host (0.0.0.0, [::]) is listened on for IPv6 and IPv4. Plain data,
// movable; closed when destroyed.
//
//   MR_ASSIGN_OR_RETURN(ListenSockets sockets, ListenOn(address));
//   ... sockets.port, sockets.fds ...

#ifndef MILLRACE_SERVER_RPC_LISTEN_SOCKETS_H_
#define MILLRACE_SERVER_RPC_LISTEN_SOCKETS_H_

#include <netdb.h>
#include <sys/socket.h>

#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "server/rpc/listen_address.h"

namespace millrace::rpc {

struct ListenSockets {
  // Non-blocking. Connections inherit TCP_NODELAY and TCP_USER_TIMEOUT.
  std::vector<UniqueFd> fds;
  int port = 0;  // of all of them

  // An address of this machine where the first socket accepts connections: of a
  // wildcard the loopback.
  sockaddr_storage own_address = {};
  socklen_t own_address_bytes = 0;
};

// Port 0 selects a free port, the same for every address. For a name with
// several addresses, one address of this machine is enough. AlreadyExists: the
// port is in use on one of them. PermissionDenied: a low port. InvalidArgument:
// the host is not an address of this machine, or the name is not known.
// ResourceExhausted: no descriptors.
absl::StatusOr<ListenSockets> ListenOn(const ListenAddress& address);

// The same for the addresses that the name stands for.
absl::StatusOr<ListenSockets> ListenOnAddresses(const ListenAddress& address,
                                                const addrinfo* found);

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_LISTEN_SOCKETS_H_
