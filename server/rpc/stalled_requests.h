// StalledRequests finds connections with requests that have begun and do not
// become complete. A client that sends only a part of a request holds memory of
// the server, and gRPC 1.51 has no time limit for that.
//
// It counts checks (Look()), not time, so that a pause of the whole process
// counts once. gRPC counts requests for each connection, not each request: a
// connection is found when each of the last `looks` checks saw an incomplete
// request on it.
//
// Pure. Not thread-safe: one thread calls Look() at regular intervals.
//
//   StalledRequests stalled({.looks = 7});  // one every 5 s
//   for (const StalledRequests::Found& found :
//        stalled.Look(CountRequests(), registry.CallsByPeer())) ...

#ifndef MILLRACE_SERVER_RPC_STALLED_REQUESTS_H_
#define MILLRACE_SERVER_RPC_STALLED_REQUESTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/rpc/request_counts.h"

namespace millrace::rpc {

class StalledRequests {
 public:
  struct Options {
    uint32_t looks = 2;  // in a row; at least 1
  };
  struct Found {
    std::string peer;       // RequestCounts::peer
    uint64_t requests = 0;  // incomplete ones
  };

  explicit StalledRequests(const Options& options) : options_(options) {}

  // `calls`: for each peer, calls whose request was complete and that still
  // run, as far as they are known. A connection that is found and stays open
  // is found again after as many looks.
  std::vector<Found> Look(const std::vector<RequestCounts>& connections,
                          const std::map<std::string, uint64_t>& calls);

 private:
  const Options options_;
  // Looks in a row that saw an incomplete request, by RequestCounts::id.
  std::unordered_map<int64_t, uint32_t> seen_;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_STALLED_REQUESTS_H_
