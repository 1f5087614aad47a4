// ServerVerdict says in one line what limits a data server, from two answers to
// GetStatus. It names a cause only where the numbers show it.
//
// It does not judge a client's wait: that is JudgeWait()
// (client/diagnosis/wait_verdict.h).
//
// Pure functions, safe from any thread. `before` may be empty: the time since
// the start of the server.
//
//   puts(ServerVerdict(before, after).c_str());
//   // "threads busy 97 %, mostly in decode: add cores or servers"

#ifndef MILLRACE_CLIENT_DIAGNOSIS_SERVER_VERDICT_H_
#define MILLRACE_CLIENT_DIAGNOSIS_SERVER_VERDICT_H_

#include <optional>
#include <string>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::diagnosis {

// The share of the worker threads' time that they worked, 0 to 1. Absent: an
// earlier version does not report it, or no time has passed.
std::optional<double> BusyShare(const GetStatusResponse& before,
                                const GetStatusResponse& after);

// "decode 71 %, augment 20 %, read 9 %" of the work, largest first; empty: the
// server did no work.
std::string StageShares(const GetStatusResponse& before,
                        const GetStatusResponse& after);

// "raise --memory_budget to 192MiB"; without the size where the server advises
// none.
std::string RaiseBudget(const FullShare& share);

std::string ServerVerdict(const GetStatusResponse& before,
                          const GetStatusResponse& after);

}  // namespace millrace::diagnosis

#endif  // MILLRACE_CLIENT_DIAGNOSIS_SERVER_VERDICT_H_
