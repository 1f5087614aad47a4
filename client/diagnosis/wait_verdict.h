// JudgeWait says why a consumer of batches waited, from the times that the
// servers wrote into the batch headers and the times that the client measured.
// It is conservative: a cause that the numbers do not show is "unclear".
//
// The rules, for each server, between two snapshots:
//
//   link      finished batches stood ready at the server for longer than any
//             other step took, or a batch was being received for 70 % of the
//             time or more
//   shared_memory  the same for a server that sends most of its batches in
//             shared memory: the client copies batches out too slowly
//   decoding, augmenting, work
//             not the link, and the server's worker threads were idle for less
//             than 25 % of the time in which batches were made; decoding or
//             augmenting is named when it took 60 % of the thread time, else
//             `work` stands for all stages together
//   reading   worker threads were idle, or blocked in their own reads, for half
//             of that time or more, and most of the work was reading: the
//             threads waited for storage
//   memory    worker threads were idle, and batches waited for memory at least
//             half as long as they took to make
//   no_answer no server could be reached, or no reachable server answered. This
//             time counts for no server
//   window    worker threads were idle, the link was idle, and nothing was
//             queued: the client has too few requests in flight
//
// Busy threads say nothing about the link beside them: behind a slow link, the
// threads are busy only in the short time in which batches are made. So where a
// batch was being received for 80 % of the time, the link is named whatever the
// threads did. From 70 % to 80 % with busy threads, while few batches stood
// ready, the cause is unclear. It is also unclear where no rule fits and for a
// server that sends no times. A cause is named when it explains 60 % of the
// wait.
//
// Pure functions, safe from any thread.
//
//   WaitReport report = {.elapsed_seconds = 10, .wait_seconds = 1.1};
//   report.servers = Difference(after.by_server, before.by_server);
//   puts(JudgeWait(report).text);
//   // "waited 11 %: decoding on 2 of 6 servers; add servers or cores"

#ifndef MILLRACE_CLIENT_DIAGNOSIS_WAIT_VERDICT_H_
#define MILLRACE_CLIENT_DIAGNOSIS_WAIT_VERDICT_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/diagnosis/server_times.h"

namespace millrace::diagnosis {

enum class WaitCause {
  kConsumer,  // the consumer hardly waited: its own work takes the time
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

// The machine-readable name: "consumer", "link", "shared_memory", "reading",
// "decoding", "augmenting", "work", "memory", "window", "no_answer",
// "preparing", "unclear".
absl::string_view NameOf(WaitCause cause);
// kUnclear for an unknown name.
WaitCause WaitCauseOf(absl::string_view name);

// Times in seconds, between two snapshots.
struct WaitReport {
  double elapsed_seconds = 0;
  double wait_seconds = 0;  // of the consumer, in Next()
  // Of the consumer of the host loader. That may be a thread that prepares
  // batches for the device; otherwise the same as wait_seconds.
  double host_wait_seconds = 0;
  double prepare_seconds = 0;  // copying to the device, transforming
  uint64_t retried_steps = 0;
  // HostLoader::Stats.
  double no_answer_seconds = 0;
  std::string no_answer;
  std::vector<ServerTimes> servers;
  std::string consumer = "the trainer";
  // Fewer batches than an epoch has were received: the servers may have read
  // these data for the first time, from cold storage.
  bool less_than_an_epoch = false;
};

// Of a DataLoader. A template, because the header of DataLoader::Stats includes
// libtorch and this component does not.
template <typename Stats>
WaitReport WaitBetween(const Stats& before, const Stats& after,
                       double elapsed_seconds) {
  WaitReport report;
  report.elapsed_seconds = elapsed_seconds;
  report.wait_seconds = after.wait_seconds - before.wait_seconds;
  report.host_wait_seconds = after.host.wait_seconds - before.host.wait_seconds;
  // On the host, `copy` includes everything; a device works in parallel.
  report.prepare_seconds =
      std::max(after.copy_seconds - before.copy_seconds,
               after.device_copy_seconds - before.device_copy_seconds);
  report.retried_steps = after.host.retried_steps - before.host.retried_steps;
  report.no_answer_seconds =
      after.host.no_answer_seconds - before.host.no_answer_seconds;
  report.no_answer = after.host.no_answer;
  report.servers = Difference(after.host.by_server, before.host.by_server);
  return report;
}

struct WaitVerdict {
  WaitCause cause = WaitCause::kUnclear;
  double wait_share = 0;  // 0 to 1
  std::string text;       // one line without a newline
};

// Below this share, data do not slow the consumer down.
inline constexpr double kMinWaitShare = 0.05;

WaitVerdict JudgeWait(const WaitReport& report);

// Of one server, over `elapsed_seconds`.
WaitCause CauseAt(const ServerTimes& server, double elapsed_seconds);

}  // namespace millrace::diagnosis

#endif  // MILLRACE_CLIENT_DIAGNOSIS_WAIT_VERDICT_H_
