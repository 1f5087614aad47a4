#include "server/data_tool/sample_sizes.h"

#include <algorithm>
#include <vector>

namespace millrace::data_tool {
namespace {

constexpr int64_t kMaxSorted = 1'000'000;

// The value at a place of the sorted list: rank = percent of the last index,
// rounded to the nearest one.
uint64_t Percentile(std::vector<uint64_t>& sizes, uint64_t percent) {
  const size_t rank = ((sizes.size() - 1) * percent + 50) / 100;
  std::nth_element(sizes.begin(), sizes.begin() + rank, sizes.end());
  return sizes[rank];
}

}  // namespace

std::optional<SampleSizes> SampleSizes::Of(
    const storage::RecordSource& source) {
  const int64_t samples = source.info().samples();
  if (samples == 0) return std::nullopt;
  const int64_t step = (samples + kMaxSorted - 1) / kMaxSorted;
  SampleSizes all = {.smallest = UINT64_MAX};
  std::vector<uint64_t> some;
  some.reserve(static_cast<size_t>(samples / step + 1));
  for (int64_t i = 0; i < samples; ++i) {
    const uint64_t bytes = source.BytesOf(i, {});
    if (bytes == 0) return std::nullopt;
    all.smallest = std::min(all.smallest, bytes);
    all.largest = std::max(all.largest, bytes);
    if (i % step == 0) some.push_back(bytes);
  }
  all.median = Percentile(some, 50);
  all.percentile_99 = Percentile(some, 99);
  return all;
}

}  // namespace millrace::data_tool
