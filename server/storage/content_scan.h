// ScanContent reads every sample of a dataset once and gives the content hash
// of each of its shards.
//
// Blocks, with threads of its own. Readers take memory as the source says.
//
//   MR_ASSIGN_OR_RETURN(const std::vector<Hash128> sums,
//                       ScanContent(*source, 8, {}));

#ifndef MILLRACE_SERVER_STORAGE_CONTENT_SCAN_H_
#define MILLRACE_SERVER_STORAGE_CONTENT_SCAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/storage/content_hash.h"
#include "server/storage/index_progress.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

// `progress` is told samples. Errors of RecordReader::Read(), of the first
// sample that has one. Unavailable: a file changed meanwhile. Cancelled:
// `progress` said so.
absl::StatusOr<std::vector<Hash128>> ScanContent(const RecordSource& source,
                                                 uint32_t threads,
                                                 const IndexProgress& progress);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CONTENT_SCAN_H_
