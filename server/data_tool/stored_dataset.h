// The samples of a dataset that millrace-server serves (any URI of
// server/storage/open.h) for the packer: the same samples, order, schema and
// classes. It changes nothing but the format, so fingerprints agree.
//
// Belongs to one thread at a time. Reads on several threads
// (server/data_tool/ordered_reads.h); the order does not depend on them.
//
//   MR_ASSIGN_OR_RETURN(auto reader, OpenStoredDataset({.uri = "tar:0.tar"}));

#ifndef MILLRACE_SERVER_DATA_TOOL_STORED_DATASET_H_
#define MILLRACE_SERVER_DATA_TOOL_STORED_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/data_tool/sample_reader.h"
#include "server/operators/operators.h"

namespace millrace::data_tool {

struct StoredDatasetOptions {
  std::string uri;
  // As OpenSourceOptions::cache_dir.
  std::string cache_dir;
  // Leave out damaged samples instead of failing; Warnings() name them.
  bool skip_bad = false;
  // Decode every image (server/data_tool/image_check.h), on this many threads;
  // 0: none.
  uint32_t decode_threads = 0;
  // Libraries whose sources may read the dataset, and whose decoders check
  // images; null: none. Must outlive the reader.
  const operators::Operators* operators = nullptr;
};

// Reads the whole dataset once before, if `skip_bad` or a check of images asks
// for it. Makes the index of records in files, as `millrace-data index` does,
// if their classes are not known without it. DataLoss: samples cannot be read
// or do not decode; names the first of them and --skip_bad. Cancelled:
// interrupted. Others as OpenRecordSource(). Next() fails with Unavailable if a
// file has changed since it was opened.
absl::StatusOr<std::unique_ptr<SampleReader>> OpenStoredDataset(
    const StoredDatasetOptions& options);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_STORED_DATASET_H_
