// The results of a sweep as people and programs read them: medians with their
// spread over the rounds, the best setting in a sentence.
//
// Pure functions, safe from any thread.
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

namespace millrace {

// Of one round.
struct BenchFigures {
  double images_per_second = 0;
  double gigabytes_per_second = 0;
  double cpu_seconds_per_gigabyte = 0;  // of the client
  double wait_share = 0;                // 0 to 1, of the consumers' time
  double first_batch_ms = 0;
  uint64_t batches = 0;  // that the rates are of, of each loader
  bool few = false;      // too few to rely on
};

// Why rates of so many batches say little; empty where they are enough.
// `requested_ahead`: the window, where no warm-up has filled it before.
std::string FewBatchesText(uint64_t batches, uint64_t requested_ahead);

struct BenchRow {
  BenchSetting setting;
  std::vector<BenchFigures> rounds;
  std::string error;  // why there are no rounds
};

// Over the rounds: the middle, and the largest and smallest.
struct BenchSpread {
  double median = 0;
  double least = 0;
  double most = 0;
};
BenchSpread Spread(const BenchRow& row, double BenchFigures::*figure);

// A whole number with separators: "12,345".
std::string Grouped(double value);

std::string BenchTable(const std::vector<BenchRow>& rows);

// The row with the most images a second. Null: no row has rounds.
const BenchRow* BestRow(const std::vector<BenchRow>& rows);

// Whether the rounds tell `row` apart from the best one: its best round did not
// reach the worst of `best`. Both have rounds.
bool ToldApart(const BenchRow& row, const BenchRow& best);

// Which setting gave the most images a second, against the slowest, and which
// others the rounds do not tell apart from it: those whose best round reached
// its worst. Empty without a row that has rounds.
std::string BestSetting(const std::vector<BenchRow>& rows);

// Names the settings whose rates are of few batches; empty: there are none.
std::string FewBatchesNote(const std::vector<BenchRow>& rows);

// The rows as a JSON array.
std::string BenchRowsJson(const std::vector<BenchRow>& rows);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_BENCH_TABLE_H_
