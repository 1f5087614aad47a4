// Makes the index of a dataset whose records are byte ranges of objects: scans
// the objects in parallel and, when asked, reads every record once for its
// content hash, class indices and lengths. Formats whose samples are files of
// their own: file_index_builder.h.
//
// It keeps nothing: extent_cache.h writes and finds indexes.
//
//   MR_ASSIGN_OR_RETURN(BuiltIndex built,
//                       BuildExtentIndex(TarFormat(), uri, list, objects, {}));

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_INDEX_BUILDER_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_INDEX_BUILDER_H_

#include "absl/status/statusor.h"
#include "server/storage/extents/build_options.h"
#include "server/storage/extents/extent_format.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/objects/object_reader.h"

namespace millrace::storage {

// InvalidArgument: an option does not fit, or an object is in the list twice.
// DataLoss: an object is damaged, changed meanwhile, or has no record, or a
// record does not fit the schema; names object, byte offset and record. Of
// several mistakes the first in the order of the samples, as far as it was
// seen. Cancelled: `progress` said so. Otherwise errors of ExtentFormat and
// ObjectReader.
absl::StatusOr<BuiltIndex> BuildExtentIndex(const ExtentFormat& format,
                                            const ExtentUri& uri,
                                            const ObjectList& list,
                                            ObjectReader& objects,
                                            const BuildOptions& options);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_INDEX_BUILDER_H_
