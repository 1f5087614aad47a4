// The address that a server listens on, and the reason when it cannot: gRPC
// itself only says that it did not start.

#ifndef MILLRACE_SERVER_RPC_LISTEN_ADDRESS_H_
#define MILLRACE_SERVER_RPC_LISTEN_ADDRESS_H_

#include <netdb.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

struct ListenAddress {
  std::string host;  // without the brackets of an IPv6 address
  int port = 0;

  // "HOST:PORT" or "[IPV6]:PORT".
  std::string Text() const;
};

// InvalidArgument: not HOST:PORT with a port of 0 to 65535.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

// Binds to the address for a moment; of a name with several, one that can be
// had is enough. AlreadyExists: the port is taken on one of them.
// PermissionDenied: a low port. InvalidArgument: the host is none of this
// machine's, or no name.
absl::Status CheckPortIsFree(const ListenAddress& address);

// The same of the addresses that the name stands for.
absl::Status CheckAddressesAreFree(const ListenAddress& address,
                                   const addrinfo* found);

}  // namespace millrace

#endif  // MILLRACE_SERVER_RPC_LISTEN_ADDRESS_H_
