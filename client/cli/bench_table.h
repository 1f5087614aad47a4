// The results of a sweep as a table, as JSON and in a sentence: medians with
// their spread over the rounds, and the best setting.
//
// It measures nothing. Pure functions, safe from any thread.
//
//   std::vector<BenchRow> rows = ...;
//   std::fputs(BenchTable(rows).c_str(), stdout);
//   puts(BestSetting(rows).c_str());

#ifndef MILLRACE_CLIENT_CLI_BENCH_TABLE_H_
#define MILLRACE_CLIENT_CLI_BENCH_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/bench_sweep.h"

namespace millrace::cli {

// Of one round.
struct BenchFigures {
  double images_per_second = 0;
  double gigabytes_per_second = 0;
  double cpu_seconds_per_gigabyte = 0;  // of the client
  double wait_share = 0;                // 0 to 1, of the consumers' time
  double first_batch_ms = 0;
  uint64_t batches = 0;  // measured, of each loader
  bool few = false;      // too few for a reliable rate
};

// Why rates of `batches` batches are not reliable; empty where they are.
// `requested_ahead`: the window, where no warm-up filled it before.
std::string FewBatchesText(uint64_t batches, uint64_t requested_ahead);

struct BenchRow {
  BenchSetting setting;
  std::vector<BenchFigures> rounds;
  std::string error;  // why there are no rounds
};

// Over the rounds.
struct BenchSpread {
  double median = 0;
  double min = 0;
  double max = 0;
};
BenchSpread Spread(const BenchRow& row, double BenchFigures::*figure);

std::string BenchTable(const std::vector<BenchRow>& rows);

// The row with the most images per second. Null: no row has rounds.
const BenchRow* BestRow(const std::vector<BenchRow>& rows);

// The best round of `row` is slower than the worst round of `best`: the
// difference is larger than the noise. Both have rounds.
bool IsSlower(const BenchRow& row, const BenchRow& best);

// The setting with the most images per second, how much faster it is than the
// slowest, and the settings within noise of the best. Empty: no row has rounds.
std::string BestSetting(const std::vector<BenchRow>& rows);

// Names the settings whose rates come from too few batches; empty: none does.
std::string FewBatchesNote(const std::vector<BenchRow>& rows);

// The rows as a JSON array.
std::string BenchRowsJson(const std::vector<BenchRow>& rows);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_BENCH_TABLE_H_
