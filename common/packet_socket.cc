#include "common/packet_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"

namespace millrace {
namespace {

// Connections that wait to be accepted.
constexpr int kBacklog = 64;

struct SocketName {
  sockaddr_un address = {};
  socklen_t bytes = 0;
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address);
  }
};

absl::StatusOr<SocketName> MakeName(const std::string& name) {
  SocketName result;
  result.address.sun_family = AF_UNIX;
  const bool abstract = !name.empty() && name[0] == '@';
  const size_t longest =
      sizeof(result.address.sun_path) - (abstract ? 0 : 1);  // a path ends in 0
  if (name.size() < (abstract ? 2 : 1) || name.size() > longest ||
      name.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`", name, "` cannot name a Unix socket: give a path of at most ",
        sizeof(result.address.sun_path) - 1, " bytes, or @ and a name"));
  }
  std::memcpy(result.address.sun_path, name.data(), name.size());
  if (abstract) result.address.sun_path[0] = 0;
  result.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                        name.size() + (abstract ? 0 : 1));
  return result;
}

absl::Status SocketError(absl::string_view what, const std::string& name,
                         int error) {
  const std::string text =
      absl::StrCat(what, " Unix socket ", name, ": ", strerror(error));
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(text);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(text);
    case ENOENT:
    case ECONNREFUSED:
      return absl::UnavailableError(text);
    case EAGAIN:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, "; the server's queue of connections is full"));
    default:
      return absl::InternalError(text);
  }
}

absl::StatusOr<UniqueFd> NewSocket(const std::string& name) {
  UniqueFd socket(
      ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.ok()) return SocketError("cannot create the", name, errno);
  return socket;
}

// What failed, and what to do.
absl::Status ListenError(const std::string& name, int error) {
  const absl::Status status = SocketError("cannot listen on the", name, error);
  const absl::string_view what_to_do =
      error == EADDRINUSE
          ? "; another process listens there, or the path is a file, a folder "
            "or a link: end that process, remove the file, or use another path"
      : error == ENOENT ? "; make the folder of the path first"
                        : "";
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), what_to_do));
}

// A lock of the folder of `path` for the processes that listen there, as long
// as the descriptor is open: between bind() and listen() a socket looks
// abandoned, and without the lock another process would replace its file. Not
// ok(): the folder cannot be locked, because it cannot be read, or because
// another program keeps a lock of its own.
UniqueFd LockFolderOf(const std::string& path) {
  constexpr int kTries = 2000;
  constexpr useconds_t kPauseMicros = 1000;
  UniqueFd folder(
      open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.ok()) return folder;
  for (int i = 0; i < kTries; ++i) {
    if (flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return folder;
    usleep(kPauseMicros);
  }
  return UniqueFd();
}

// Removes the file of a socket whose listener is gone. One that only does not
// keep up with its connections lives.
void RemoveAbandoned(const std::string& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const auto connected = ConnectForPackets(path);
  if (absl::IsUnavailable(connected.status())) unlink(path.c_str());
}

}  // namespace

absl::StatusOr<UniqueFd> ListenForPackets(const std::string& name) {
  const auto address = MakeName(name);
  if (!address.ok()) return address.status();
  auto socket = NewSocket(name);
  if (!socket.ok()) return socket;
  UniqueFd lock;
  if (name[0] != '@') {
    lock = LockFolderOf(name);
    RemoveAbandoned(name);
  }
  if (bind(socket->get(), address->get(), address->bytes) != 0 ||
      listen(socket->get(), kBacklog) != 0) {
    return ListenError(name, errno);
  }
  // Connecting needs write permission; the folder's permissions limit access.
  if (name[0] != '@' && chmod(name.c_str(), 0666) != 0) {
    return SocketError("cannot set the permissions of the", name, errno);
  }
  return socket;
}

absl::StatusOr<UniqueFd> ConnectForPackets(const std::string& name) {
  const auto address = MakeName(name);
  if (!address.ok()) return address.status();
  auto socket = NewSocket(name);
  if (!socket.ok()) return socket;
  if (connect(socket->get(), address->get(), address->bytes) != 0) {
    return SocketError("cannot connect to the", name, errno);
  }
  return socket;
}

absl::StatusOr<UniqueFd> AcceptPackets(int listener) {
  UniqueFd socket(
      accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.ok()) return socket;
  const int error = errno;
  const std::string text =
      absl::StrCat("cannot accept a connection: ", strerror(error));
  switch (error) {
    case EAGAIN:
    case ECONNABORTED:
    case EINTR:
      return absl::UnavailableError(text);
    case EMFILE:
      return absl::ResourceExhaustedError(absl::StrCat(
          text,
          "; the process has reached its limit of open files (ulimit -n)"));
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::InternalError(text);
  }
}

absl::StatusOr<uid_t> PeerUser(int socket) {
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return absl::InternalError(
        absl::StrCat("cannot read the identity of the connecting process: ",
                     strerror(errno)));
  }
  return peer.uid;
}

absl::Status SendPacket(int socket, absl::string_view packet, int attached) {
  iovec part = {const_cast<char*>(packet.data()), packet.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (attached >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &attached, sizeof(int));
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    const std::string text =
        absl::StrCat("cannot send on a Unix socket: ", strerror(errno));
    if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ||
        errno == ETOOMANYREFS) {
      return absl::ResourceExhaustedError(text);
    }
    return absl::UnavailableError(text);
  }
  return absl::OkStatus();
}

Received ReceivePacket(int socket, void* packet, size_t capacity, size_t* bytes,
                       UniqueFd* attached) {
  attached->Reset();
  *bytes = 0;
  iovec part = {packet, capacity};
  // More than is accepted, so that no descriptor is left open by mistake.
  constexpr size_t kMaxAttached = 8;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxAttached * sizeof(int))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t received;
  do {
    received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? Received::kNothing
                                                   : Received::kEnd;
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      // The first one counts; others are closed here.
      UniqueFd taken(fd);
      if (!attached->ok()) *attached = std::move(taken);
    }
  }
  // A packet has at least one byte; none is the end.
  if (received == 0) return Received::kEnd;
  *bytes = static_cast<size_t>(received);
  return Received::kPacket;
}

}  // namespace millrace
