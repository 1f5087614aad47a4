// HDF5 files as a RecordSource: datasets with a row for each sample
// (docs/formats.md, "HDF5 files").
//
// Rows of contiguous data, and of uncompressed chunks of whole rows, are read
// by offset, as any other record in a file. Other rows are read only for
// commands that go through a dataset in order (Hdf5Use::kInOrder).
//
//   MR_ASSIGN_OR_RETURN(auto source, OpenHdf5("/data/train.h5?label=y",
//   options,
//                                             Hdf5Use::kAtRandom));

#ifndef MILLRACE_SERVER_STORAGE_HDF5_HDF5_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_HDF5_HDF5_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

inline constexpr absl::string_view kHdf5Scheme = "hdf5";

enum class Hdf5Use {
  kAtRandom,  // a server: every dataset must be readable by offset
  kInOrder,   // pack, diff, ...: everything that libhdf5 can decompress
};

// `rest`: what follows "hdf5:", a path and options. Reads the structure of each
// file, the labels, and of each file 1,024 pieces for the fingerprint.
// A usage error: wrong options, or a dataset that is not readable by offset
// (FailedPrecondition, with the command to pack). ResourceExhausted: a row, or
// the list of chunks, does not fit into the budget. Otherwise errors of
// FindShards() and ReaderProcess.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenHdf5(
    absl::string_view rest, const OpenSourceOptions& options, Hdf5Use use);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_HDF5_SOURCE_H_
