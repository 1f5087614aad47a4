// DiffDatasets compares the content of two datasets, whatever their formats:
// number of samples, schema with classes, and the bytes of every field of every
// sample. Content is equal if and only if the content fingerprints agree
// (docs/formats.md).
//
// Thread-safe. Reads both on several threads while it runs
// (server/data_tool/ordered_reads.h).
//
//   MR_ASSIGN_OR_RETURN(const DatasetDiff diff, DiffDatasets(*a, *b, {}));
//   for (const std::string& line : diff.first) std::cout << line << "\n";

#ifndef MILLRACE_SERVER_DATA_TOOL_DATASET_DIFF_H_
#define MILLRACE_SERVER_DATA_TOOL_DATASET_DIFF_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/storage/record_source.h"

namespace millrace::data_tool {

struct DatasetDiffOptions {
  // Differences in DatasetDiff::first.
  int64_t max_differences = 10;
  // Called after each sample with the samples and the bytes of A so far. False:
  // stop.
  std::function<bool(int64_t samples, int64_t bytes)> progress;
};

struct DatasetDiff {
  // Sentences of the schema and the number of samples, then of the samples in
  // their order.
  std::vector<std::string> first;
  int64_t count = 0;    // of all differences
  int64_t samples = 0;  // compared
  int64_t different_samples = 0;
  int64_t bytes = 0;  // of A
  // Of the content of A; empty if a sample of A cannot be read, or if B has
  // more or fewer samples.
  std::string fingerprint;
};

// Fields are paired by name, and values are compared if kinds, types and shapes
// agree. Samples beyond the end of the shorter dataset count as one difference.
// A sample that cannot be read is a difference. Cancelled: stopped. Unavailable
// and so on: a dataset cannot be read.
absl::StatusOr<DatasetDiff> DiffDatasets(const storage::RecordSource& a,
                                         const storage::RecordSource& b,
                                         const DatasetDiffOptions& options);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_DATASET_DIFF_H_
