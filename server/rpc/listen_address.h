// The address that a server listens on, as text. listen_sockets.h opens it.

#ifndef MILLRACE_SERVER_RPC_LISTEN_ADDRESS_H_
#define MILLRACE_SERVER_RPC_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::rpc {

struct ListenAddress {
  std::string host;  // without the brackets of an IPv6 address
  int port = 0;

  // "HOST:PORT" or "[IPV6]:PORT".
  std::string Text() const;
};

// InvalidArgument: not HOST:PORT with a port of 0 to 65535.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_LISTEN_ADDRESS_H_
