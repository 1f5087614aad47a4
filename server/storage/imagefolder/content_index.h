// Makes the index of an image folder with the hash of its content: reads every
// file once. The folder then has the fingerprint of the packed dataset, and so
// have copies of it whose times differ.
//
//   MR_ASSIGN_OR_RETURN(IndexedFolder done, IndexImageFolder(path, {}, 8, {}));

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_CONTENT_INDEX_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_CONTENT_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/index_progress.h"
#include "server/storage/open_options.h"

namespace millrace::storage {

struct IndexedFolder {
  DatasetInfo info;
  std::string file;  // the index
  int64_t bad_count = 0;
  std::vector<std::string> bad;  // the first files that are no images
};

// Lists `path` again, reads it on `threads` threads, and writes the index to
// the cache folder of `options`. Errors of OpenFolderSource() and of its reads.
// FailedPrecondition: there is no cache folder. Cancelled: `progress` said so;
// an older index stays.
absl::StatusOr<IndexedFolder> IndexImageFolder(const std::string& path,
                                               const OpenSourceOptions& options,
                                               uint32_t threads,
                                               const IndexProgress& progress);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_CONTENT_INDEX_H_
