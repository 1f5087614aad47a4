// The results of a sweep as a plot: a bar for each setting, with a line from
// its worst to its best round.
//
// Pure function, safe from any thread. Nothing is drawn here: see
// common/picture/picture_renderer.h.
//
//   const Picture plot = LayOutBenchPlot(rows, {"millrace bench: photos", {}});

#ifndef MILLRACE_CLIENT_CLI_BENCH_PLOT_H_
#define MILLRACE_CLIENT_CLI_BENCH_PLOT_H_

#include <string>
#include <vector>

#include "client/cli/bench_table.h"
#include "common/picture/picture.h"

namespace millrace {

struct BenchPlotHead {
  std::string title;
  // What all settings have in common, when and where it was measured.
  std::vector<std::string> lines;
};

// Texts may hold any bytes. Rows without rounds say why.
Picture LayOutBenchPlot(const std::vector<BenchRow>& rows,
                        const BenchPlotHead& head);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_BENCH_PLOT_H_
