// chart_dataset URI N: writes a dataset of N charts
// (tests/testing/chart/chart.h).

#include <cstdlib>
#include <iostream>

#include "absl/strings/numbers.h"
#include "tests/testing/chart/chart.h"

int main(int argc, char** argv) {
  int samples = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[2], &samples) || samples < 1) {
    std::cerr << "usage: chart_dataset lmdb:PATH N" << std::endl;
    return 2;
  }
  const absl::Status status = millrace::WriteChartDataset(argv[1], samples);
  if (!status.ok()) {
    std::cerr << "chart_dataset: " << status.message() << std::endl;
    return 1;
  }
  return 0;
}
