// RpcServer listens on an address and serves an Engine by gRPC, with the
// standard health and reflection services.
//
// Thread-safe. Owns gRPC's server, its threads and a few of its own; engine and
// budget are not owned and outlive it. Connections are accepted by a loop of
// its own (connection_acceptor.h), which gRPC gets them from. Stopping is
// graceful: health becomes NOT_SERVING, new work is refused as UNAVAILABLE,
// streams in flight may finish within `shutdown_grace`, and the other streams
// end with UNAVAILABLE, so that clients request from other servers.
//
//   RpcServer::Options options{.listen = "0.0.0.0:7001", .engine = engine,
//                              .budget = &budget};
//   MR_ASSIGN_OR_RETURN(auto server, RpcServer::Start(options));
//   ... server->port() ...
//   server->Shutdown();

#ifndef MILLRACE_SERVER_RPC_RPC_SERVER_H_
#define MILLRACE_SERVER_RPC_RPC_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/byte_budget.h"
#include "server/pipeline/engine.h"
#include "server/rpc/watchdog.h"

namespace millrace::rpc {

class RpcServer {
 public:
  struct Options {
    // HOST:PORT, [IPV6]:PORT; port 0: a free one.
    std::string listen;
    pipeline::Engine* engine = nullptr;
    // The engine's, for its numbers.
    ByteBudget* budget = nullptr;
    // Time after which a blocked write cancels its call. Above 0.
    absl::Duration send_timeout = absl::Seconds(10);
    // While other clients wait for memory: maximum age of an unsent batch. If
    // the oldest batch of a client is older, the client's batches above its
    // share are taken back (client_shares.h). Above 0.
    absl::Duration batch_timeout = absl::Seconds(2);
    // Time after which a connection with an incomplete request is closed: a few
    // seconds later, and not before two checks that are a second apart. Above
    // 0.
    absl::Duration request_timeout = absl::Seconds(30);
    // How long Shutdown lets streams finish. 0: ends them at once.
    absl::Duration shutdown_grace = absl::Seconds(10);
    // GetBatches calls at a time, of all clients together; further ones are
    // refused as RESOURCE_EXHAUSTED with a delay. Calls that arrive at the same
    // moment may exceed it by the number of gRPC's threads. Above 0.
    uint64_t max_streams = 4096;
    // Upper bounds of open connections, of all clients and of one address;
    // further connections are closed at once. 0: derived from the limit of open
    // files (open_connections.h).
    uint64_t max_connections = 0;
    uint64_t max_connections_per_peer = 0;
    // Only processes of this machine and of the server's own user may connect.
    bool only_own_user = false;
    // Called once, on a thread of the server, when the server no longer answers
    // new connections (watchdog.h): it should end the process. Null: no
    // watchdog.
    std::function<void(absl::Status)> on_unreachable;
    // Times of the watchdog. Tests shorten them.
    Watchdog::Options watchdog;
    // Shown by GetStatus.
    uint32_t content_revision = 0;
    // Socket where clients on this machine connect for shared memory: a path,
    // or empty for an abstract socket with a unique name. Not set: no shared
    // memory.
    std::optional<std::string> local_socket;

    absl::Status Validate() const;
  };

  // InvalidArgument: no such address. AlreadyExists: the port is taken, or the
  // path of the local socket. ResourceExhausted: no descriptors are left.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      const Options& options);

  // Shuts down.
  virtual ~RpcServer() = default;

  virtual int port() const = 0;

  // "HOST:PORT" with the port that was chosen.
  virtual std::string address() const = 0;

  // Returns when all is ended. Streams may finish within
  // Options::shutdown_grace; `at_once`: nobody waits for them, so they end now.
  // Idempotent; one caller at a time.
  virtual void Shutdown(bool at_once = false) = 0;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_RPC_SERVER_H_
