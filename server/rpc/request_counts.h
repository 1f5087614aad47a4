// What gRPC counts of the requests of each connection (channelz, gRFC A14).
//
// Thread-safe. About 20 us a connection.
//
//   for (const RequestCounts& one : CountRequests()) {
//     uint64_t open = one.begun - one.ended;

#ifndef MILLRACE_SERVER_RPC_REQUEST_COUNTS_H_
#define MILLRACE_SERVER_RPC_REQUEST_COUNTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace::rpc {

struct RequestCounts {
  int64_t id = 0;         // differs for all connections of the process
  std::string peer;       // as ServerContext::peer(): "ipv4:10.0.0.7:41234"
  uint64_t begun = 0;     // calls, by their first frame
  uint64_t ended = 0;     // of these
  uint64_t received = 0;  // messages that have arrived whole
};

// Of every connection that a client has opened to a gRPC server of this
// process.
std::vector<RequestCounts> CountRequests();

// "10.0.0.7:41234", "::1:41234": the peer as the accept loop names it.
std::string PlainPeer(absl::string_view peer);

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_REQUEST_COUNTS_H_
