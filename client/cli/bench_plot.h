// The results of a sweep as a plot: a bar for each setting, with a line from
// its worst to its best round.
//
// It only lays the plot out; common/picture/picture_renderer.h draws it.
//
// Pure function, safe from any thread.
//
//   const Picture plot = LayOutBenchPlot(rows, {"millrace bench: photos", {}});

#ifndef MILLRACE_CLIENT_CLI_BENCH_PLOT_H_
#define MILLRACE_CLIENT_CLI_BENCH_PLOT_H_

#include <string>
#include <vector>

#include "client/cli/bench_table.h"
#include "common/picture/picture.h"

namespace millrace::cli {

struct BenchPlotHead {
  std::string title;
  // The flags that all settings share, the date and the host.
  std::vector<std::string> lines;
};

// Texts may hold any bytes. A row without rounds shows its error.
picture::Picture LayOutBenchPlot(const std::vector<BenchRow>& rows,
                                 const BenchPlotHead& head);

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_BENCH_PLOT_H_
