// TcpPeerUser finds the user of the process at the other end of a TCP
// connection within this machine. The system knows the owner of each socket,
// also of the client's.
//
// Asks the system by netlink (sock_diag), and reads /proc/net/tcp6 and
// /proc/net/tcp where that is not possible. Thread-safe, keeps nothing. Tens of
// microseconds; with those tables, more for each connection of the machine.
//
//   const absl::StatusOr<uid_t> user = TcpPeerUser(connection);
//   if (!user.ok() || *user != geteuid()) return;  // refuse

#ifndef MILLRACE_SERVER_RPC_PEER_USER_H_
#define MILLRACE_SERVER_RPC_PEER_USER_H_

#include <sys/types.h>

#include "absl/status/statusor.h"

namespace millrace::rpc {

// NotFound: the other end is not a socket of this machine and network
// namespace, or has been closed. InvalidArgument: no TCP connection.
absl::StatusOr<uid_t> TcpPeerUser(int connection);

// The two ways, for tests.
absl::StatusOr<uid_t> TcpPeerUserByNetlink(int connection);
absl::StatusOr<uid_t> TcpPeerUserByProc(int connection);

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_PEER_USER_H_
