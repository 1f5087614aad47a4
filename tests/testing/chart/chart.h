// The picture that the pages of docs/ show transforms with: drawn by
// arithmetic, so that it is nobody's photograph and the same everywhere. A
// disc, a triangle and a block of stripes before a sky of all colours; their
// mask (classes 1, 2, 3), their boxes, and a letter that shows which way up it
// is.
//
// Pure functions.

#ifndef MILLRACE_TESTS_TESTING_CHART_CHART_H_
#define MILLRACE_TESTS_TESTING_CHART_CHART_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/picture/rgb_image.h"

namespace millrace {

inline constexpr int kChartWidth = 240;
inline constexpr int kChartHeight = 180;

struct Chart {
  picture::RgbImage image;
  std::vector<uint8_t> mask;  // kChartHeight x kChartWidth
  std::vector<float> boxes;   // 4 boxes, the last one padding
  int label = 0;              // 0 disc, 1 triangle, 2 stripes: the largest
};

// Charts of different `variant`s have their figures elsewhere.
Chart DrawChart(int variant);

// Writes a dataset of `samples` charts to `uri`: fields image and mask (encoded
// as PNG), boxes float32 [4, 4] and label. Errors as DatasetWriter.
absl::Status WriteChartDataset(absl::string_view uri, int samples);

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTING_CHART_CHART_H_
