// SampleSizes are the sizes of the samples of a dataset, as far as they are
// known without reading it: how much a batch takes, and whether a few samples
// are much larger than the others.
//
// It reads no sample. A plain value.
//
//   if (const auto sizes = SampleSizes::Of(source)) Print(sizes->median);

#ifndef MILLRACE_SERVER_DATA_TOOL_SAMPLE_SIZES_H_
#define MILLRACE_SERVER_DATA_TOOL_SAMPLE_SIZES_H_

#include <cstdint>
#include <optional>

#include "server/storage/record_source.h"

namespace millrace::data_tool {

// In bytes, of all fields of a sample together (RecordSource::BytesOf()).
struct SampleSizes {
  uint64_t smallest = 0;
  uint64_t median = 0;
  uint64_t percentile_99 = 0;
  uint64_t largest = 0;

  // Absent: the sizes are not known. Of more than a million samples, median and
  // percentile are those of a million in equal distances.
  static std::optional<SampleSizes> Of(const storage::RecordSource& source);
};

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_SAMPLE_SIZES_H_
