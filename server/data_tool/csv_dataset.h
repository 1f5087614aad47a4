// The samples of a table of image paths and labels (server/storage/csv) for the
// packer: one a row, in the order of the rows, with the bytes of the files. It
// also checks every image.

#ifndef MILLRACE_SERVER_DATA_TOOL_CSV_DATASET_H_
#define MILLRACE_SERVER_DATA_TOOL_CSV_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/data_tool/sample_reader.h"
#include "server/operators/operators.h"

namespace millrace::data_tool {

struct CsvDatasetOptions {
  // The path of the table, and behind a '?' options of
  // server/storage/csv/csv_options.h:
  // "labels.csv?path=file&label=class". A '?' of an existing file's path begins
  // no options.
  std::string input;
  // Leave rows out that cannot be packed instead of failing; Warnings() name
  // them.
  bool skip_bad = false;
  // Decode every image (server/data_tool/image_check.h), on this many threads;
  // 0: look at their first bytes only.
  uint32_t decode_threads = 0;
  // Files that a decoder of these knows by their first bytes are images; null:
  // none. Must outlive the reader.
  const operators::Operators* operators = nullptr;
};

// Reads the table into memory, looks at the beginning of every file, or decodes
// them. A usage error: there is no such table, or an option is wrong or does
// not fit the table. DataLoss: a row is no row of the table (names file and
// line; `skip_bad` does not help), or files are missing, empty, no image, named
// by two rows, or do not decode; names the first lines and --skip_bad.
// Cancelled: interrupted while decoding.
absl::StatusOr<std::unique_ptr<SampleReader>> OpenCsvDataset(
    const CsvDatasetOptions& options);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_CSV_DATASET_H_
