// Packets between processes of one machine: Unix sockets of type
// SOCK_SEQPACKET, which keep the borders of messages, carry file descriptors,
// and tell each side at once when the other has ended, however it ended.
//
// Names: a path, or "@name" of Linux's abstract namespace. An abstract name
// leaves nothing behind, and is seen only from the same network namespace; a
// path can be shared between containers.
//
// All sockets are non-blocking. Thread-safe functions: several threads may send
// on one socket, packets do not mix.
//
//   MR_ASSIGN_OR_RETURN(UniqueFd listener, ListenForPackets("@millrace"));
//   MR_ASSIGN_OR_RETURN(UniqueFd socket, ConnectForPackets("@millrace"));
//   MR_RETURN_IF_ERROR(SendPacket(socket.get(), bytes));

#ifndef MILLRACE_COMMON_PACKET_SOCKET_H_
#define MILLRACE_COMMON_PACKET_SOCKET_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/unique_fd.h"

namespace millrace {

// Every user who can enter the folder may connect to a path. InvalidArgument:
// the name is empty or too long. AlreadyExists: another process listens on the
// name, or the path is a file that is not a socket. A socket file without a
// listener is replaced; the caller removes its socket file at the end.
absl::StatusOr<UniqueFd> ListenForPackets(const std::string& name);

// Unavailable: no process listens on the name. ResourceExhausted: too many
// connections wait for the listener. PermissionDenied: this user may not use
// the file of the socket.
absl::StatusOr<UniqueFd> ConnectForPackets(const std::string& name);

// The next connection; Unavailable when there is none now. ResourceExhausted:
// descriptors or memory are short; a connection may wait, and poll() says so.
absl::StatusOr<UniqueFd> AcceptPackets(int listener);

// The user that the other side's process ran as when it connected.
absl::StatusOr<uid_t> PeerUser(int socket);

// `attached`: a descriptor that the receiver gets a copy of; -1: none.
// Unavailable: the other side has ended. ResourceExhausted: it does not read,
// or too many descriptors are in flight.
absl::Status SendPacket(int socket, absl::string_view packet,
                        int attached = -1);

enum class Received {
  kPacket,
  kNothing,  // now
  kEnd,      // the other side is gone, or the socket is broken
};

// The next packet, cut at `capacity` bytes, and what was attached to it.
Received ReceivePacket(int socket, void* packet, size_t capacity, size_t* bytes,
                       UniqueFd* attached);

}  // namespace millrace

#endif  // MILLRACE_COMMON_PACKET_SOCKET_H_
