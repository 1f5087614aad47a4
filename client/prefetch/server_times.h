// ServerTimes adds up, for one server, what its batches' headers said of their
// way through it and what this client measured itself. Verdict
// (client/prefetch/verdict.h) makes a sentence of it.
//
// Plain data, all sums since the loader was opened. The difference of two looks
// says what happened between them.

#ifndef MILLRACE_CLIENT_PREFETCH_SERVER_TIMES_H_
#define MILLRACE_CLIENT_PREFETCH_SERVER_TIMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

struct ServerTimes {
  std::string address;   // as a person knows it
  uint64_t batches = 0;  // that it delivered first
  // Of these, with stage times: a server of an earlier version sends none.
  uint64_t timed_batches = 0;
  // Of `batches`, those in memory that the server shares.
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

  // Here. The time during which a batch had begun to arrive and was not whole:
  // batches that arrive side by side count once.
  double receive_seconds = 0;
  double waited_seconds = 0;  // that the consumer waited for its batches

  void AddStages(const BatchHeader& header);
};

// `after` less `before`, by address; both are looks at one loader. Servers that
// did nothing in between are left out.
std::vector<ServerTimes> Difference(const std::vector<ServerTimes>& after,
                                    const std::vector<ServerTimes>& before);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_SERVER_TIMES_H_
