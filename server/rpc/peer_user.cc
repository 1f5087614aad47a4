#include "server/rpc/peer_user.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "common/unique_fd.h"

namespace millrace::rpc {
namespace {

// Time for the system's answer, which comes at once.
constexpr int kAnswerMs = 1000;
// Columns of a line of /proc/net/tcp.
constexpr size_t kLocalColumn = 1, kRemoteColumn = 2, kUserColumn = 7;

// One end of a connection. An IPv4 address of an IPv6 socket is an IPv4
// address, because the socket at the other end may be an IPv4 socket.
struct SocketEnd {
  int family = AF_INET;
  uint32_t address[4] = {};  // network order; IPv4: the first
  uint16_t port = 0;         // network order
};

absl::StatusOr<SocketEnd> EndOf(int connection,
                                int (*get)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage name = {};
  socklen_t bytes = sizeof(name);
  if (get(connection, reinterpret_cast<sockaddr*>(&name), &bytes) != 0) {
    return absl::NotFoundError(
        absl::StrCat("the connection has no address: ", strerror(errno)));
  }
  SocketEnd end;
  if (name.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(name);
    end.address[0] = v4.sin_addr.s_addr;
    end.port = v4.sin_port;
    return end;
  }
  if (name.ss_family != AF_INET6) {
    return absl::InvalidArgumentError("not a TCP connection");
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(name);
  end.port = v6.sin6_port;
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    std::memcpy(end.address, &v6.sin6_addr.s6_addr[12], 4);
    return end;
  }
  end.family = AF_INET6;
  std::memcpy(end.address, &v6.sin6_addr, sizeof(end.address));
  return end;
}

struct BothEnds {
  SocketEnd peer;
  SocketEnd own;
};

absl::StatusOr<BothEnds> EndsOf(int connection) {
  BothEnds ends;
  MR_ASSIGN_OR_RETURN(ends.peer, EndOf(connection, &getpeername));
  MR_ASSIGN_OR_RETURN(ends.own, EndOf(connection, &getsockname));
  return ends;
}

// "0100007F:1B59", as /proc/net/tcp writes it: each word of the address as a
// number of this machine. `in_v6`: an IPv4 address as /proc/net/tcp6 writes it.
std::string ProcText(const SocketEnd& end, bool in_v6) {
  std::string text;
  if (in_v6 && end.family == AF_INET) {
    absl::StrAppendFormat(&text, "%08X%08X%08X", 0, 0, htonl(0xFFFF));
  }
  for (int i = 0; i < (end.family == AF_INET ? 1 : 4); ++i) {
    absl::StrAppendFormat(&text, "%08X", end.address[i]);
  }
  return absl::StrFormat("%s:%04X", text, ntohs(end.port));
}

// The user of the socket from `ends.peer` to `ends.own` in the table
// /proc/net/tcp or, for `in_v6`, /proc/net/tcp6. NotFound: it is not there.
absl::StatusOr<uid_t> FindInProc(const BothEnds& ends, bool in_v6) {
  const std::string peer = ProcText(ends.peer, in_v6);
  const std::string own = ProcText(ends.own, in_v6);
  std::ifstream table(in_v6 ? "/proc/net/tcp6" : "/proc/net/tcp");
  std::string line;
  while (std::getline(table, line)) {
    const std::vector<std::string> columns =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint32_t user = 0;
    if (columns.size() > kUserColumn && columns[kLocalColumn] == peer &&
        columns[kRemoteColumn] == own &&
        absl::SimpleAtoi(columns[kUserColumn], &user)) {
      return user;
    }
  }
  return absl::NotFoundError("the client's socket is not of this machine");
}

}  // namespace

absl::StatusOr<uid_t> TcpPeerUserByNetlink(int connection) {
  MR_ASSIGN_OR_RETURN(const BothEnds ends, EndsOf(connection));
  const UniqueFd netlink(
      socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } question = {};
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  inet_diag_req_v2& request = question.request;
  request.sdiag_family = static_cast<uint8_t>(ends.peer.family);
  request.sdiag_protocol = IPPROTO_TCP;
  request.idiag_states = ~0u;
  // The client's socket, whose source is our peer.
  request.id.idiag_sport = ends.peer.port;
  request.id.idiag_dport = ends.own.port;
  std::memcpy(request.id.idiag_src, ends.peer.address,
              sizeof(ends.peer.address));
  std::memcpy(request.id.idiag_dst, ends.own.address, sizeof(ends.own.address));
  request.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  alignas(nlmsghdr) char answer[4096];
  ssize_t bytes = -1;
  if (netlink.ok() && send(netlink.get(), &question, sizeof(question), 0) ==
                          static_cast<ssize_t>(sizeof(question))) {
    pollfd waits = {netlink.get(), POLLIN, 0};
    if (poll(&waits, 1, kAnswerMs) == 1) {
      bytes = recv(netlink.get(), answer, sizeof(answer), MSG_DONTWAIT);
    }
  }
  if (bytes < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) {
    return absl::NotFoundError("the system does not know the client's socket");
  }
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer);
  if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return absl::NotFoundError("the system does not know the client's socket");
  }
  const auto* found =
      reinterpret_cast<const inet_diag_msg*>(NLMSG_DATA(header));
  // Without an exact match, the system answers with a listening socket.
  if (found->id.idiag_sport != ends.peer.port ||
      found->id.idiag_dport != ends.own.port) {
    return absl::NotFoundError("the client's socket is not of this machine");
  }
  return found->idiag_uid;
}

absl::StatusOr<uid_t> TcpPeerUserByProc(int connection) {
  MR_ASSIGN_OR_RETURN(const BothEnds ends, EndsOf(connection));
  // gRPC's clients connect to an IPv4 address with an IPv6 socket.
  absl::StatusOr<uid_t> user = FindInProc(ends, /*in_v6=*/true);
  if (user.ok() || ends.peer.family != AF_INET) return user;
  return FindInProc(ends, /*in_v6=*/false);
}

absl::StatusOr<uid_t> TcpPeerUser(int connection) {
  absl::StatusOr<uid_t> user = TcpPeerUserByNetlink(connection);
  return user.ok() ? user : TcpPeerUserByProc(connection);
}

}  // namespace millrace::rpc
