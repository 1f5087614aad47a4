// ServerTimes adds up, for one server, the times that the server wrote into the
// headers of its batches, and the times that this client measured.
//
// It draws no conclusion: that is JudgeWait()
// (client/diagnosis/wait_verdict.h).
//
// Plain data, all sums since the loader was opened; Difference() gives the time
// between two snapshots. One thread at a time.
//
//   report.servers = Difference(after.by_server, before.by_server);

#ifndef MILLRACE_CLIENT_DIAGNOSIS_SERVER_TIMES_H_
#define MILLRACE_CLIENT_DIAGNOSIS_SERVER_TIMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::diagnosis {

struct ServerTimes {
  std::string address;   // as the endpoint names it
  uint64_t batches = 0;  // that this server delivered first
  // Of these, batches with stage times: earlier versions send none.
  uint64_t timed_batches = 0;
  // Of `batches`, batches in memory that the server shares.
  uint64_t shared_batches = 0;

  // At the server, summed over batches (StageMicros). Work is thread time.
  double read_seconds = 0;
  double decode_seconds = 0;
  double augment_seconds = 0;
  double wait_memory_seconds = 0;
  double wait_thread_seconds = 0;
  double send_seconds = 0;
  double make_seconds = 0;
  double idle_seconds = 0;

  // At this client: time in which at least one batch was partly received.
  // Batches that arrive in parallel count once.
  double receive_seconds = 0;
  double waited_seconds = 0;  // the consumer waited for batches of this server

  void AddStages(const BatchHeader& header);
};

// `after` minus `before`, by address; both are snapshots of one loader. Servers
// that did nothing in between are left out.
std::vector<ServerTimes> Difference(const std::vector<ServerTimes>& after,
                                    const std::vector<ServerTimes>& before);

}  // namespace millrace::diagnosis

#endif  // MILLRACE_CLIENT_DIAGNOSIS_SERVER_TIMES_H_
