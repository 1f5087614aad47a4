// ServerVerdict says in a line what limits a data server, from two looks at its
// status. It names a cause only where the numbers show it.
//
// Pure, safe from any thread.
//
//   puts(ServerVerdict(first, second).c_str());
//   // "threads busy 97 %, decoding: add cores or servers"

#ifndef MILLRACE_CLIENT_CLI_SERVER_VERDICT_H_
#define MILLRACE_CLIENT_CLI_SERVER_VERDICT_H_

#include <string>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

// The share of its worker threads' time that they worked, 0 to 1; -1: the
// server does not say (an earlier version), or no time has passed.
double BusyShare(const GetStatusResponse& before,
                 const GetStatusResponse& after);

// "decode 71 %, augment 20 %, read 9 %" of the work between the looks, most
// first; empty: none was done.
std::string StageShares(const GetStatusResponse& before,
                        const GetStatusResponse& after);

// "raise --memory_budget to 192MiB"; without the number where the server knows
// none.
std::string RaiseBudget(const FullShare& share);

// `before` without anything: since the server has started.
std::string ServerVerdict(const GetStatusResponse& before,
                          const GetStatusResponse& after);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_SERVER_VERDICT_H_
