// Describes the datasets of an open HDF5 file: which fields they can be, and
// where their rows lie where rows can be read by offset.
//
// It reads no values. It follows no link: what lies behind soft and external
// links is named as left out.
//
// One thread.
//
//   MR_ASSIGN_OR_RETURN(Hdf5Layout layout, ScanFile(file));

#ifndef MILLRACE_SERVER_STORAGE_HDF5_FILE_SCAN_H_
#define MILLRACE_SERVER_STORAGE_HDF5_FILE_SCAN_H_

#include <hdf5/serial/hdf5.h>

#include "absl/status/statusor.h"
#include "proto/hdf5_layout.pb.h"
#include "proto/names.h"

namespace millrace::storage {

// DataLoss: the structure is damaged. InvalidArgument: more than
// kHdf5MaxDatasets datasets. A sentence behind "FILE: ".
absl::StatusOr<Hdf5Layout> ScanFile(hid_t file);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_FILE_SCAN_H_
