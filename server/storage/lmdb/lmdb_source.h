// A packed dataset in LMDB shards. Samples are handed out where they lie in
// the file's pages: nothing is copied and nothing allocated per sample.
//
// Thread-safe as RecordSource says. Files that change while they are served end
// as Unavailable, also where a damaged sample would be DataLoss.

#ifndef MILLRACE_SERVER_STORAGE_LMDB_LMDB_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_LMDB_LMDB_SOURCE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

// DataLoss: a file is truncated, foreign or damaged, or the set is not whole.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenLmdbSource(
    const std::vector<std::string>& files);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LMDB_LMDB_SOURCE_H_
