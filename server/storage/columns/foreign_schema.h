// What the table files of other programs have in common as a dataset: columns
// that become no field, files that must have one schema, and their rows as
// shards.
//
// Pure functions. It opens no file and knows no format.
//
//   DatasetInfo of_file;   // schema and left_out of one file
//   MR_RETURN_IF_ERROR(AppendForeignFile({.path = path, .rows = 7}, &of_file,
//                                        &info));

#ifndef MILLRACE_SERVER_STORAGE_COLUMNS_FOREIGN_SCHEMA_H_
#define MILLRACE_SERVER_STORAGE_COLUMNS_FOREIGN_SCHEMA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

// Adds the column, which becomes no field, with the reason.
void AddLeftOut(absl::string_view name, std::string reason, DatasetInfo* info);

// The reason for columns that share a name.
std::string WhySharedName(int columns);

struct ForeignFile {
  std::string path;
  int64_t rows = 0;
  int64_t bytes = 0;
};

// Adds the next file as a shard of `info`. The first file gives the schema and
// the columns that are left out, which are logged. InvalidArgument: it has no
// readable column. DataLoss: the file has another schema than the first one.
absl::Status AppendForeignFile(const ForeignFile& file, DatasetInfo* of_file,
                               DatasetInfo* info);

// InvalidArgument: the dataset has no rows. `path`: of its first file.
absl::Status CheckHasRows(absl::string_view path, const DatasetInfo& info);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_COLUMNS_FOREIGN_SCHEMA_H_
