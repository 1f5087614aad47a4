// Where the packer's samples come from: image folders, IDX files. Knows what
// there is before the first sample is read, so that a dataset can be described
// and its output checked first.
//
// Belongs to one thread at a time.

#ifndef MILLRACE_SERVER_DATA_TOOL_SAMPLE_READER_H_
#define MILLRACE_SERVER_DATA_TOOL_SAMPLE_READER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::data_tool {

class SampleReader {
 public:
  virtual ~SampleReader() = default;

  // Samples, schema, presets.
  virtual const DatasetInfo& description() const = 0;

  struct Sample {
    // As the schema says; valid until the next call.
    std::vector<absl::Span<const uint8_t>> fields;
    std::string origin;  // path of the file within the input; may be empty
  };

  // The next sample in logical order; called `description().samples()` times
  // at most. DataLoss, NotFound, ...: it cannot be read; names the file.
  virtual absl::Status Next(Sample* sample) = 0;

  // What was left out, a sentence each, for the user.
  virtual std::vector<std::string> Warnings() const { return {}; }
};

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_SAMPLE_READER_H_
