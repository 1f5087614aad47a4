#include "client/cli/bench_verdict.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/prefetch/verdict.h"

namespace millrace {
namespace {

// Of the work of the servers' threads: what is named.
constexpr double kMostOfWork = 0.6;

// Of reading, decoding and augmenting on all servers.
double ReadShare(const std::vector<ServerTimes>& servers) {
  double read = 0;
  double work = 0;
  for (const ServerTimes& server : servers) {
    read += server.read_seconds;
    work +=
        server.read_seconds + server.decode_seconds + server.augment_seconds;
  }
  return work > 0 ? read / work : 0;
}

}  // namespace

std::string BenchVerdict(const BenchResult& result, uint32_t loaders) {
  WaitReport waits;
  waits.elapsed_seconds = result.seconds;
  waits.wait_seconds = result.wait_seconds / loaders;
  waits.host_wait_seconds = waits.wait_seconds;
  waits.retried_steps = result.retried_steps;
  waits.no_answer_seconds = result.no_answer_seconds;
  waits.no_answer = result.no_answer;
  waits.servers = result.servers_times;
  waits.consumer = "this client";
  const Verdict verdict = Judge(waits);
  std::string text = verdict.text;
  const double read = ReadShare(result.servers_times);
  const bool busy_reading =
      verdict.cause == WaitCause::kWork && read >= kMostOfWork;
  if (busy_reading) {
    text = absl::StrFormat(
        "waited %.0f %%: reading, %.0f %% of the work of the servers' threads, "
        "which have no pause (reading includes unpacking Parquet row groups); "
        "add servers or cores",
        100 * verdict.wait_share, 100 * read);
  }
  const bool reads = busy_reading || verdict.cause == WaitCause::kReading;
  if (reads && result.batches / loaders + 1 < result.plan.steps_per_epoch()) {
    absl::StrAppend(&text,
                    "; less than an epoch was received, so the servers may "
                    "have read these data for the first time: measure again, "
                    "or with --epochs=2");
  }
  // The error itself is no wait for data.
  return absl::StrCat(result.ended.ok() ? "" : "before the error: ", text);
}

}  // namespace millrace
