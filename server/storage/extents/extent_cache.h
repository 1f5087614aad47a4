// The extent index of a dataset in the cache folder, so that objects are
// scanned once: finds the index, checks that it is whole and that no object has
// changed since, and scans the objects when it is not. Of an index of files it
// checks the table; the files themselves are compared when they are read.
//
// Thread-safe; processes may share a cache folder.
//
//   MR_ASSIGN_OR_RETURN(auto index, FindExtentIndex(TarFormat(), uri, objects,
//                                                   options, &room));

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_CACHE_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_CACHE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/byte_budget.h"
#include "server/storage/extents/extent_format.h"
#include "server/storage/extents/extent_index.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/extents/index_builder.h"
#include "server/storage/objects/object_reader.h"
#include "server/storage/open_options.h"

namespace millrace::storage {

// Reserves the index's memory in options.metadata_budget. A new index is
// written to the cache folder; when that is not possible, the log says why.
// Logs whether and why the objects were scanned.
//
// Errors of ExtentFormat::List() and BuildExtentIndex(). ResourceExhausted, a
// usage error: the index does not fit into the budget. DataLoss also as
// options.keep_content_index has it.
absl::StatusOr<std::unique_ptr<const ExtentIndex>> FindExtentIndex(
    const ExtentFormat& format, const ExtentUri& uri, ObjectReader& objects,
    const OpenSourceOptions& options, ByteBudget::Reservation* room);

// Makes an index and writes it to the cache folder; an older one stays after an
// error. Without options.content, an index that has the content hash already
// keeps it, unless the objects have changed since: the log then warns. `*file`:
// its path. Errors as BuildExtentIndex() and MakeCacheFolder().
absl::StatusOr<std::unique_ptr<const ExtentIndex>> MakeExtentIndex(
    const ExtentFormat& format, const ExtentUri& uri, ObjectReader& objects,
    const std::string& cache_dir, const BuildOptions& options,
    std::string* file);

// Removes the index from the cache folder, unless it is another one meanwhile:
// a file that it describes has changed, and the next start makes a new one.
// Logs that.
void DropExtentIndex(const ExtentIndex& index, const ExtentUri& uri,
                     const std::string& cache_dir);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_EXTENT_CACHE_H_
