// ExtentSource serves a dataset whose records are byte ranges of files, such as
// tar shards, as it is. Each read of a sample is one read of its extent.
//
// An object is compared with its identity in the index before and after each
// read: an object that has changed makes its samples damaged (DataLoss), which
// are never served. Other objects are served on, so CheckFiles() is about the
// index alone. What another attempt may cure is Unavailable.
//
// Where each sample is a file of its own (csv:), the same holds of the files.
// The first one that has changed removes the index from the cache folder, so
// that the next start makes a new one. Errors name the file.
//
// While a reader visits a sample, it holds the whole record, in memory of
// ReadMemory.
//
// Thread-safe as RecordSource says.

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/byte_budget.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/extents/extent_format.h"
#include "server/storage/extents/extent_index.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/objects/object_reader.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

// `rest`: what follows "tar:". Errors of ExtentUri::Parse() and
// FindExtentIndex(). ResourceExhausted, a usage error: the largest record does
// not fit into the budget.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenExtentSource(
    const ExtentFormat& format, absl::string_view rest,
    const OpenSourceOptions& options);

// The same for an index at hand. `room`: the reservation of its memory.
absl::StatusOr<std::unique_ptr<RecordSource>> NewExtentSource(
    const ExtentFormat& format, const ExtentUri& uri,
    std::unique_ptr<ObjectReader> objects,
    std::unique_ptr<const ExtentIndex> index, ByteBudget::Reservation room,
    const OpenSourceOptions& options);

// Samples, schema with classes, shards, presets and fingerprint. Errors of
// ExtentUri::ApplyTo().
absl::StatusOr<DatasetInfo> DescribeExtents(const ExtentIndex& index,
                                            const ExtentUri& uri,
                                            int class_field);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_SOURCE_H_
