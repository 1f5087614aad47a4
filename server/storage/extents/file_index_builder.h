// Makes the index of a dataset whose samples are files that a table names: asks
// for the identity of every file and, when asked, reads every file once for the
// content hash.
//
// It keeps nothing. Called by BuildExtentIndex().
//
//   MR_ASSIGN_OR_RETURN(BuiltIndex built,
//                       BuildFileIndex(CsvFormat(), uri, list, objects, {}));

#ifndef MILLRACE_SERVER_STORAGE_EXTENTS_FILE_INDEX_BUILDER_H_
#define MILLRACE_SERVER_STORAGE_EXTENTS_FILE_INDEX_BUILDER_H_

#include "absl/status/statusor.h"
#include "server/storage/extents/build_options.h"
#include "server/storage/extents/extent_format.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/objects/object_reader.h"

namespace millrace::storage {

// The first object of `list` is the table. DataLoss: the table is damaged or
// changed meanwhile, or files are missing, empty, no regular files, or named by
// two rows: names the table, the first rows and what to do. Otherwise as
// BuildExtentIndex().
absl::StatusOr<BuiltIndex> BuildFileIndex(const ExtentFormat& format,
                                          const ExtentUri& uri,
                                          const ObjectList& list,
                                          ObjectReader& objects,
                                          const BuildOptions& options);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_EXTENTS_FILE_INDEX_BUILDER_H_
