// Which fields the datasets of HDF5 files become. Datasets with the same number
// of rows are the columns of a table; row i of each is sample i. A record is
// built of them as chunk files have it (chunks/column_rule.h), so that names,
// types, image, label and their options are those of MDS and LitData.
//
// It reads no file: the caller has the layouts and the first row.
//
// Pure functions and plain data.
//
//   MR_ASSIGN_OR_RETURN(auto table, ChooseDatasets(layout, "1.h5", options));
//   MR_ASSIGN_OR_RETURN(auto rule, ChooseHdf5Fields(table, options,
//   first_row));

#ifndef MILLRACE_SERVER_STORAGE_HDF5_HDF5_FIELDS_H_
#define MILLRACE_SERVER_STORAGE_HDF5_HDF5_FIELDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/hdf5_layout.pb.h"
#include "proto/names.h"
#include "server/storage/chunks/column_rule.h"
#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

// A dataset that becomes a field.
struct Hdf5Column {
  int set = 0;       // index into the datasets of the first file
  std::string path;  // in the file: "train/images"
  std::string name;  // below the group of option group: "images"
};

struct Hdf5Table {
  std::vector<Hdf5Column> columns;
  std::vector<LeftOutColumn> left_out;
  int64_t rows = 0;
};

// InvalidArgument: an option that hdf5: does not have.
absl::Status CheckHdf5Options(const FormatOptions& options);

// The datasets of the file that become fields. Option group=PATH: those below
// the group. Option fields=A,B: these, and those that the options image and
// label name; without it all that can be fields.
// InvalidArgument, a usage error: an option names no dataset; the datasets have
// different numbers of rows; there is none. Each names the datasets.
// DataLoss: no rows.
absl::StatusOr<Hdf5Table> ChooseDatasets(const Hdf5Layout& layout,
                                         const std::string& file,
                                         const FormatOptions& options);

// The datasets of another file that are the same columns; `first` is the layout
// of the table's file. DataLoss: a dataset is missing, or has another type or
// shape, or number of rows; names both files.
absl::StatusOr<std::vector<int>> MatchDatasets(const Hdf5Table& table,
                                               const Hdf5Layout& first,
                                               const std::string& first_file,
                                               const Hdf5Layout& layout,
                                               const std::string& file,
                                               int64_t* rows);

// Value of a text without what fills it up; other values stay.
absl::Span<const uint8_t> WithoutPadding(const Hdf5Dataset& set,
                                         absl::Span<const uint8_t> value);

// Whether the values of a column have sizes of their own in a record.
inline bool Varies(const Hdf5Dataset& set) {
  return set.variable() || set.stored() == 0;
}

// The rule of the table. `first_row`: the values of the columns in row 0, as
// WithoutPadding() gives them. Errors of ChooseFields().
absl::StatusOr<std::unique_ptr<ColumnRule>> ChooseHdf5Fields(
    const Hdf5Table& table, const Hdf5Layout& layout,
    const FormatOptions& options,
    const std::vector<absl::Span<const uint8_t>>& first_row);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_HDF5_FIELDS_H_
