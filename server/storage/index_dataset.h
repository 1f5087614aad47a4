// Makes the index of a dataset ahead of the server, for all formats that have
// one: image folders, records in files, and LMDB environments of other programs
// (of which only the content hash is kept).
//
//   MR_ASSIGN_OR_RETURN(IndexedDataset done,
//                       IndexDataset("tar:/data/0.tar", {}, {.threads = 8}));

#ifndef MILLRACE_SERVER_STORAGE_INDEX_DATASET_H_
#define MILLRACE_SERVER_STORAGE_INDEX_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/index_progress.h"
#include "server/storage/open_options.h"

namespace millrace::storage {

struct IndexedDataset {
  DatasetInfo info;
  std::string file;  // the index
  // The index had the hash of the content, and headers_only has kept it.
  bool content_kept = false;
  // Of an image folder: files that are no images, and the first of them.
  int64_t bad_count = 0;
  std::vector<std::string> bad;
};

struct IndexDatasetOptions {
  uint32_t threads = 1;
  // Scan the headers of records only: fast, but the fingerprint is not that of
  // the content.
  bool headers_only = false;
  IndexProgress progress;
};

// `uri` as OpenRecordSource() takes it. Writes the index to the cache folder of
// `options`. InvalidArgument, a usage error: the format has no index, or no
// headers. FailedPrecondition: there is no cache folder. Cancelled: `progress`
// said so; an older index stays. Otherwise errors of the format.
absl::StatusOr<IndexedDataset> IndexDataset(absl::string_view uri,
                                            const OpenSourceOptions& options,
                                            const IndexDatasetOptions& index);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_INDEX_DATASET_H_
