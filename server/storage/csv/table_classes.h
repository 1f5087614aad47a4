// Class indices of a table of paths and labels (server/storage/csv) that has
// one label column of names or whole numbers:
//
//   names            the place of the name in the bytewise order of all names,
//                    or with classes=FILE its line in that file
//   whole numbers    as written, plus label_offset; with classes=FILE the names
//                    of the classes are the lines of that file
//
// Whole numbers from 0 to kMaxCsvClasses - 1 are class indices, and the dataset
// has as many classes as the largest needs, or num_classes. Other whole numbers
// stay plain values.
//
// Pure functions, but for the file of names; safe from any thread.

#ifndef MILLRACE_SERVER_STORAGE_CSV_TABLE_CLASSES_H_
#define MILLRACE_SERVER_STORAGE_CSV_TABLE_CLASSES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/csv/path_table.h"
#include "server/storage/extents/extent_uri.h"

namespace millrace::storage {

// The value of each row; empty: the labels are not of this kind. Sets names and
// number of the classes in `schema`, a copy of the table's. `options.path` is
// the path of the table. InvalidArgument: an option of `options` does not fit
// the labels; names a line if a row is the reason.
absl::StatusOr<std::vector<int64_t>> ClassesOfTable(const PathTable& table,
                                                    const ExtentUri& options,
                                                    Schema* schema);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CSV_TABLE_CLASSES_H_
