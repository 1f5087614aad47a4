// One measurement of `millrace bench`: opens loaders, waits for the first batch
// of each, then takes batches as fast as they come and counts.
//
// Blocking, for the program's main thread; each loader has a thread here.
//
//   MR_ASSIGN_OR_RETURN(BenchResult result, MeasureBatches(options,
//   signals)); Show(result.figures);

#ifndef MILLRACE_CLIENT_CLI_BENCH_RUN_H_
#define MILLRACE_CLIENT_CLI_BENCH_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/bench_table.h"
#include "client/cli/bench_waits.h"
#include "client/prefetch/host_loader.h"
#include "common/program/stop_signals.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace {

struct BenchOptions {
  HostLoaderOptions host;
  // That take batches of the same rank side by side, each all of them.
  uint32_t loaders = 1;
  // What each takes: so many, the first one included, at least 2; or, when
  // `duration` is above 0, what comes within it after a warm-up: `warmup`, or
  // when that is 0 as many batches as the window has, or as long again; or,
  // when `epochs` is above 0, so many epochs, with the first batch at least 2
  // batches.
  uint64_t batches = 200;
  absl::Duration duration;
  absl::Duration warmup;
  uint64_t epochs = 0;
};

// Sums are those of all loaders, without their first batches and the warm-up.
struct BenchResult {
  OpenResponse plan;
  // Of the first loader: at the end, at the start, changes since then, and why
  // the last one was made.
  uint32_t window = 0;
  uint32_t first_window = 0;
  uint64_t window_changes = 0;
  std::string window_reason;
  uint64_t servers = 0;
  uint64_t batches = 0;
  uint64_t images = 0;
  uint64_t payload_bytes = 0;
  // Of these, as they came over the network: what arrived meanwhile, or else
  // before, had this share of its payload's size. 0: all came in shared memory.
  uint64_t wire_bytes = 0;
  double seconds = 0;
  double cpu_seconds = 0;   // of this process
  double wait_seconds = 0;  // summed over the loaders
  uint64_t retried_steps = 0;
  uint64_t hedged_steps = 0;
  BenchWaits waits;  // of all loaders
  // Of the first loader.
  std::vector<ServerTimes> servers_times;
  double no_answer_seconds = 0;
  std::string no_answer;
  BenchFigures figures;
  std::string few_batches;   // FewBatchesText()
  bool interrupted = false;  // cut short: what came until then
  // Not OK: an error ended it early, and the figures are of the time until the
  // last batch.
  absl::Status ended;
};

// A run by `duration` ends at the latest when no batch has come for the
// loader's step_timeout. Cancelled: interrupted before there was anything to
// count. Others, as of OpenHostLoader() and HostLoader::Next(): there was
// nothing to count. Of opening, with the marks of OfRequest().
absl::StatusOr<BenchResult> MeasureBatches(const BenchOptions& options,
                                           StopSignals& signals);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_BENCH_RUN_H_
