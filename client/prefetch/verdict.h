// Judge says in one line why a consumer of batches waited, from what the
// servers wrote into the headers and what the client measured. It is
// conservative: what the numbers do not show is "not clear".
//
// The reasoning, server by server, over the time between two looks:
//
//   link      batches stood ready at the server for longer than anything else
//             took, or a batch was on its way more than 70 % of the time
//   shared_memory  the same of a server whose batches came in memory that it
//             shares, most of them: the way is then this client's own copying
//   work      not the link, and the server's worker threads had no pause while
//             batches were made (idle below 25 %): decoding or augmenting,
//             where one of them took 60 % of the thread time, else all of the
//             making
//   reading   threads were idle, or waited in reads of their own, for half of
//             that time or more, and most of the work was reading: they waited
//             for storage
//   memory    threads were idle, and batches waited for memory at least half as
//             long as they took to make
//   no_answer no server could be reached, or all that could were silent. This
//             time counts for no server
//   window    threads were idle, the link too, and nothing queued anywhere: the
//             client asks for too little at once
//
// Threads without a pause say nothing of a link beside them: behind a thin link
// the little time in which batches are made is all work. So where a batch was
// on its way for 80 % of the time, the link is named whatever the threads did;
// from 70 to 80 % beside busy threads, while little stood ready, both may hold
// batches up: "not clear", as is what none of these fits, and a server that
// sends no times. A cause is named when it stands for 60 % of the time that was
// waited.
//
// Pure functions, safe from any thread.
//
//   WaitReport report = {.elapsed_seconds = 10, .wait_seconds = 1.1};
//   report.servers = Difference(after.by_server, before.by_server);
//   puts(Judge(report).text);  // "waited 11 %: decoding on 2 of 6 servers;
//   ..."

#ifndef MILLRACE_CLIENT_PREFETCH_VERDICT_H_
#define MILLRACE_CLIENT_PREFETCH_VERDICT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/prefetch/server_times.h"

namespace millrace {

enum class WaitCause {
  kConsumer,  // it hardly waited: its own work is what takes the time
  kLink,
  kSharedMemory,
  kReading,
  kDecoding,
  kAugmenting,
  kWork,  // reading, decoding and augmenting together
  kMemory,
  kWindow,
  kNoAnswer,
  kPreparing,  // copies and transforms on the client's machine
  kUnclear,
};

// As programs read it: "consumer", "link", "shared_memory", "reading",
// "decoding", "augmenting", "work", "memory", "window", "no_answer",
// "preparing", "unclear".
const char* NameOf(WaitCause cause);

// All in seconds, between two looks.
struct WaitReport {
  double elapsed_seconds = 0;
  double wait_seconds = 0;  // of the consumer, in its Next()
  // Of the host loader's consumer, which may be a thread that prepares batches
  // for the device; the same as wait_seconds where there is none.
  double host_wait_seconds = 0;
  double prepare_seconds = 0;  // copying to the device, transforming
  uint64_t retried_steps = 0;
  // Of the host loader's consumer; HostLoader::Stats.
  double no_answer_seconds = 0;
  std::string no_answer;
  std::vector<ServerTimes> servers;
  std::string consumer = "the trainer";
};

struct Verdict {
  WaitCause cause = WaitCause::kUnclear;
  double wait_share = 0;  // 0 to 1
  std::string text;       // one line without its end
};

// Below this share a consumer is not held up by its data.
inline constexpr double kHardlyWaits = 0.05;

Verdict Judge(const WaitReport& report);

// Of one server, over `elapsed_seconds`.
WaitCause CauseAt(const ServerTimes& server, double elapsed_seconds);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_PREFETCH_VERDICT_H_
