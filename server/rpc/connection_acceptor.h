// ConnectionAcceptor accepts the connections of a server and hands them over.
// It replaces gRPC's accept loop, which stops for ever once the process has run
// out of descriptors (gRPC 1.51).
//
// Bounded: connections above the limits are accepted and closed at once, so
// that the peer uses another server instead of waiting. When the process has no
// descriptor left, a spare descriptor serves the same purpose. Each kind of
// refusal is logged at most once a second.
//
// Thread-safe. Owns the sockets and one thread, on which `take` runs.
//
//   MR_ASSIGN_OR_RETURN(auto acceptor, ConnectionAcceptor::Start(
//       std::move(sockets), {.take = [&](int listener, UniqueFd fd) {...}}));

#ifndef MILLRACE_SERVER_RPC_CONNECTION_ACCEPTOR_H_
#define MILLRACE_SERVER_RPC_CONNECTION_ACCEPTOR_H_

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/thread.h"
#include "common/unique_fd.h"
#include "server/rpc/listen_sockets.h"
#include "server/rpc/open_connections.h"

namespace millrace::rpc {

class ConnectionAcceptor {
 public:
  struct Options {
    ConnectionLimits limits;  // both above 0
    // Gets every connection that is accepted, non-blocking.
    std::function<void(int listener, UniqueFd connection)> take;
    // Returns why a connection is not served, for the log; "": it is. Null: all
    // are. Ignored for the connection of LetIn().
    std::function<std::string(int connection)> refusal;
    // Counts every connection that was closed because of a limit or a refusal.
    std::atomic<uint64_t>* refused = nullptr;
  };

  // ResourceExhausted: the process has no descriptors left.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Start(
      ListenSockets sockets, Options options);

  // Stops.
  ~ConnectionAcceptor();

  int port() const { return sockets_.port; }
  const ListenSockets& sockets() const { return sockets_; }

  // The connection from this address, which is about to come, is accepted
  // whatever the limits. One at a time.
  void LetIn(const sockaddr_storage& address);

  // Shuts down the connections from these "ADDRESS:PORT", so that their owner
  // closes them. Returns their number.
  uint64_t Close(const std::unordered_set<std::string>& peers);

  // Closes the listening sockets. Idempotent; one caller at a time.
  void Stop();

 private:
  ConnectionAcceptor(ListenSockets sockets, Options options, UniqueFd wake);

  void Run();
  // Accepts waiting connections, a bounded number at a time. False: the system
  // lacks a resource, so the caller should wait a little.
  bool AcceptFrom(int listener);
  // Accepts one connection with the spare descriptor and closes it. False: that
  // did not help.
  bool RefuseWithSpare(int listener, int reason);
  void Take(int listener, UniqueFd connection, const sockaddr_storage& from);

  const Options options_;
  ListenSockets sockets_;  // of the thread, until it has ended
  const UniqueFd wake_;    // an eventfd
  UniqueFd spare_;

  Mutex mu_;
  OpenConnections open_ MR_GUARDED_BY(mu_);
  std::string let_in_ MR_GUARDED_BY(mu_);  // "address:port"; empty: none

  NamedThread thread_;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_CONNECTION_ACCEPTOR_H_
