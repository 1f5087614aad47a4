// The files of an HDF5 dataset, described: which dataset of each file is which
// column, where its rows lie, the rule of the fields with the classes, and the
// fingerprint. Everything that OpenHdf5() finds out before the first read.
//
//   MR_ASSIGN_OR_RETURN(Hdf5Files files, DescribeHdf5(uri, objects, blocks));

#ifndef MILLRACE_SERVER_STORAGE_HDF5_HDF5_FILES_H_
#define MILLRACE_SERVER_STORAGE_HDF5_HDF5_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "proto/hdf5_layout.pb.h"
#include "proto/names.h"
#include "server/storage/chunks/column_rule.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/hdf5/hdf5_fields.h"
#include "server/storage/hdf5/heap_value.h"
#include "server/storage/hdf5/row_blocks.h"
#include "server/storage/objects/object_reader.h"

namespace millrace::storage {

struct Hdf5File {
  std::string path;
  ObjectIdentity identity;
  // Of each column, in the order of the table.
  std::vector<int> numbers;  // of the datasets in the file
  std::vector<Hdf5Dataset> sets;
  // Max bytes of a value that is read by offset, of each column.
  std::vector<uint64_t> largest;
  int64_t first_sample = 0;
  int64_t samples = 0;
};

struct Hdf5Files {
  Hdf5Table table;
  std::vector<Hdf5File> files;
  std::unique_ptr<ColumnRule> rule;
  DatasetInfo info;  // with classes and fingerprint
};

// Why rows of the column are not readable by offset, with the name of the
// dataset and the file; empty: they are.
std::string WhyPacked(const Hdf5Files& files, size_t column);

struct ValuePlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// The place of the value of row `row` in a file of `file_bytes`; the dataset is
// readable by offset. Reads references to values of variable length. DataLoss:
// they are damaged. Errors of `load`.
absl::StatusOr<ValuePlace> FindValue(const Hdf5Dataset& set, uint64_t row,
                                     uint64_t file_bytes, LoadBytes load);

// Errors of OpenHdf5(). `blocks` gets the processes that were started.
absl::StatusOr<Hdf5Files> DescribeHdf5(const ExtentUri& uri,
                                       ObjectReader& objects,
                                       RowBlocks& blocks);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_HDF5_FILES_H_
