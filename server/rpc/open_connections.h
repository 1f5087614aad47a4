// OpenConnections counts the connections that were accepted and handed to gRPC,
// in all and of each peer, and says whether one more is within the limits. gRPC
// owns the socket of a connection and does not report when it closes the
// socket. Therefore OpenConnections asks the system whether a descriptor is
// still the same socket.
//
// Not thread-safe: belongs to the thread that accepts. Owns no descriptor.
//
//   OpenConnections open({.total = 800, .per_peer = 400}, &InodeOf);
//   if (open.Refusal("10.0.0.7", now).empty()) open.Add(fd, "10.0.0.7");

#ifndef MILLRACE_SERVER_RPC_OPEN_CONNECTIONS_H_
#define MILLRACE_SERVER_RPC_OPEN_CONNECTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace millrace::rpc {

struct ConnectionLimits {
  uint64_t total = 0;
  uint64_t per_peer = 0;  // of one address, whatever its ports
  // The limit of open files that `total` follows from; 0: `total` was set.
  uint64_t open_files = 0;
  bool per_peer_is_half = false;  // of `total`, and was not set
};

// Limits for a process that may open `descriptors` files and has `open` files
// now: they leave room for files and for the process's own needs. A limit of
// `asked` above 0 is used unchanged.
ConnectionLimits DefaultConnectionLimits(uint64_t descriptors, uint64_t open,
                                         const ConnectionLimits& asked);

// A warning if the limit of open files leaves few connections, or fewer than
// one address may have. Empty: it does not.
std::string ConnectionsWarning(const ConnectionLimits& limits);

// Names the socket behind a descriptor, different for every socket. 0: there is
// none.
uint64_t InodeOf(int fd);

class OpenConnections {
 public:
  OpenConnections(const ConnectionLimits& limits,
                  std::function<uint64_t(int)> inode_of)
      : limits_(limits), inode_of_(std::move(inode_of)) {}

  // Why the peer cannot have one more connection, naming the limit and its
  // flag; empty: it can.
  std::string Refusal(const std::string& peer, SteadyTime now);

  // The descriptor is from now on a connection of `peer`, from its `port`.
  void Add(int fd, const std::string& peer, int port);

  // Of the connections from these "PEER:PORT", the descriptors of those that
  // still live.
  std::vector<int> Find(const std::unordered_set<std::string>& names) const;

  // As far as it is known: connections that have ended may still be counted.
  uint64_t total() const { return by_fd_.size(); }

 private:
  // `inode` names the socket that the descriptor was when it was added: another
  // number now means that it was closed, and maybe opened again.
  struct Connection {
    uint64_t inode = 0;
    std::string peer;
    int port = 0;
  };

  void Forget(std::unordered_map<int, Connection>::iterator at);
  // Forgets connections that have ended. A flood of connections does not cause
  // a full scan each time.
  void Sweep(SteadyTime now);

  const ConnectionLimits limits_;
  const std::function<uint64_t(int)> inode_of_;
  // Connections that were added and not found to have ended; by_peer_ counts
  // them by address, and has no entry of 0.
  std::unordered_map<int, Connection> by_fd_;
  std::unordered_map<std::string, uint64_t> by_peer_;
  // Before that time nothing is swept.
  SteadyTime next_sweep_;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_OPEN_CONNECTIONS_H_
