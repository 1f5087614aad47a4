// Where the time of a measurement of `millrace bench` went, in one line: the
// verdict of client/prefetch/verdict.h, and what a bench knows beside it.
//
// Pure function, safe from any thread.
//
//   report.Add("verdict", "where the time went", BenchVerdict(result,
//   loaders));

#ifndef MILLRACE_CLIENT_CLI_BENCH_VERDICT_H_
#define MILLRACE_CLIENT_CLI_BENCH_VERDICT_H_

#include <cstdint>
#include <string>

#include "client/cli/bench_run.h"

namespace millrace {

// Where the servers' threads had no pause and most of their work was reading,
// the line says so: "making batches" would hide it. Of a measurement that held
// the client up by reading and was shorter than an epoch it says that the data
// may have been read for the first time. `loaders`: as BenchOptions has it.
std::string BenchVerdict(const BenchResult& result, uint32_t loaders);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_BENCH_VERDICT_H_
