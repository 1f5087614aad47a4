// imagefolder: serves a folder of class folders with images as it is, without
// packing. The samples, their order, their labels and their bytes are those of
// the dataset that `millrace-data pack --format=imagefolder` makes of the
// folder.
//
// A file is opened for each read and closed after it. Before and after the read
// its size and time of modification are compared with those of the listing: a
// file that has changed is a damaged sample (DataLoss), never served. What
// another attempt may cure (an error of the disk or of the network) is
// Unavailable.
//
// While a reader visits a sample, it holds the whole file, in memory of a
// FileRoom: OpenSourceOptions::read_bytes and the largest file together.
//
// Thread-safe as RecordSource says.

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/byte_budget.h"
#include "server/storage/imagefolder/folder_index.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

// `path` is the folder. Errors of RealFolder() and FindFolderIndex().
absl::StatusOr<std::unique_ptr<RecordSource>> OpenFolderSource(
    const std::string& path, const OpenSourceOptions& options);

// The same for an index at hand. `room`: the reservation of its memory. An
// index that turns out to be outdated is dropped from the cache folder.
// ResourceExhausted, a usage error: the largest file does not fit into the
// budget.
absl::StatusOr<std::unique_ptr<RecordSource>> NewFolderSource(
    FolderIndex index, ByteBudget::Reservation room,
    const OpenSourceOptions& options);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_FOLDER_SOURCE_H_
