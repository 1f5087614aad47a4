// One measurement of `millrace bench`: opens loaders, waits for the first batch
// of each, then receives batches at full speed and counts them.
//
// It prints nothing: bench_command.cc does.
//
// MeasureBatches() blocks, and runs each loader on a thread of its own; call it
// on the program's main thread.
//
//   MR_ASSIGN_OR_RETURN(BenchResult result, MeasureBatches(options, signals));
//   puts(BenchVerdict(result, options.loaders).c_str());

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
#include "common/stop_signals.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"

namespace millrace::cli {

struct BenchOptions {
  HostLoaderOptions host;
  // Loaders that run in parallel; each receives all batches of the same rank.
  uint32_t loaders = 1;
  // The end of the measurement, for each loader:
  // - with `duration` above 0: that time, after a warm-up;
  // - with `epochs` above 0: that number of epochs, at least 2 batches;
  // - otherwise: `batches`, including the first one, at least 2.
  uint64_t batches = 200;
  absl::Duration duration;
  // 0: a window of batches, but no longer than `duration`.
  absl::Duration warmup;
  uint64_t epochs = 0;
};

// Sums over all loaders, without their first batches and the warm-up.
struct BenchResult {
  OpenResponse plan;
  // Of the first loader: at the end, at the start, changes in between, and the
  // reason of the last change.
  uint32_t window = 0;
  uint32_t first_window = 0;
  uint64_t window_changes = 0;
  std::string window_reason;
  uint64_t servers = 0;
  uint64_t batches = 0;
  uint64_t images = 0;
  uint64_t payload_bytes = 0;
  // The same batches as received over the network, perhaps compressed
  // (wire_share.h). 0: all came in shared memory.
  uint64_t wire_bytes = 0;
  double seconds = 0;
  double cpu_seconds = 0;   // of this process
  double wait_seconds = 0;  // summed over the loaders
  uint64_t retried_steps = 0;
  uint64_t hedged_steps = 0;
  BenchWaits waits;  // of all loaders
  // Of the first loader.
  std::vector<diagnosis::ServerTimes> servers_times;
  double no_answer_seconds = 0;
  std::string no_answer;
  BenchFigures figures;
  std::string few_batches;   // FewBatchesText()
  bool interrupted = false;  // a signal ended the measurement early
  // Not OK: an error ended the measurement early, and the figures are of the
  // time until the last batch.
  absl::Status ended;
};

// A measurement by `duration` also ends when no batch arrives for the loader's
// step_timeout. Cancelled: interrupted before the second batch. Others, as of
// OpenHostLoader() (with the marks of OfRequest()) and HostLoader::Next(): the
// error came before the second batch.
absl::StatusOr<BenchResult> MeasureBatches(const BenchOptions& options,
                                           StopSignals& signals);

// Why the clients waited, in one line. `loaders` as in BenchOptions.
std::string BenchVerdict(const BenchResult& result, uint32_t loaders);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_BENCH_RUN_H_
