// Computes the content hash of a foreign LMDB dataset for `millrace-data
// index`: reads every value once.
//
//   MR_ASSIGN_OR_RETURN(auto indexed, IndexForeignLmdb(rest, options, 8, {}));

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_INDEX_FOREIGN_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_INDEX_FOREIGN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/index_progress.h"
#include "server/storage/open_options.h"

namespace millrace::storage {

struct IndexedForeign {
  DatasetInfo info;  // with the fingerprint of the content
  std::string file;  // the record in the cache folder
};

// `rest`: what follows "lmdb:". nullopt: it is no dataset of another program.
// Cancelled: `progress` said so. DataLoss: a record is damaged; names file and
// key. Unavailable: a file changed meanwhile. Otherwise errors of
// OpenForeignLmdb() and SaveContentRecord().
absl::StatusOr<std::optional<IndexedForeign>> IndexForeignLmdb(
    absl::string_view rest, const OpenSourceOptions& options, uint32_t threads,
    const IndexProgress& progress);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_INDEX_FOREIGN_H_
