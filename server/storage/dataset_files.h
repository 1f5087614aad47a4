// The files of a dataset, by their names: their number and folders, and
// warnings if the names are those of different parts (train/ and test/) or
// contain values that no field has (year=2024/). A glob silently matches all of
// these.
//
// Reads folders, never files. A dataset of an operator's source has none.
//
//   MR_ASSIGN_OR_RETURN(DatasetFiles files,
//                       FindDatasetFiles("parquet:/d/*/*"));
//   std::string text = files.Sentence();
//   // "4 files in 2 folders: /d/a, /d/b"

#ifndef MILLRACE_SERVER_STORAGE_DATASET_FILES_H_
#define MILLRACE_SERVER_STORAGE_DATASET_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace millrace::storage {

struct DatasetFiles {
  std::vector<std::string> files;
  std::vector<std::string> folders;  // each once, in bytewise order
  // Values in the names of folders below this one are fields; absent: none are.
  std::optional<std::string> fields_below;

  // "" without a file.
  std::string Sentence() const;
  // Warnings for people, a sentence each.
  std::vector<std::string> Warnings() const;
};

// Of paths as FindShards() gives them.
DatasetFiles DescribeFiles(absl::Span<const std::string> paths);

// `uri` as OpenRecordSource() takes it. Errors of FindShards().
absl::StatusOr<DatasetFiles> FindDatasetFiles(absl::string_view uri);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_DATASET_FILES_H_
