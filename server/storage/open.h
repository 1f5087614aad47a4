// The one factory of record sources: URI -> source.

#ifndef MILLRACE_SERVER_STORAGE_OPEN_H_
#define MILLRACE_SERVER_STORAGE_OPEN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

// `uri` is lmdb:PATH, parquet:PATH or arrow:PATH, PATH a file, a folder of
// shards, a glob or ranges in braces; imagefolder:PATH, PATH a folder of class
// folders; or tar:PATH?OPTIONS or tfrecord:PATH?OPTIONS, PATH as for lmdb.
// Reads metadata and checks every shard's size and schema, not its rows; of an
// image folder it lists the files, of tar shards the members, of TFRecord files
// the records, of LMDB environments of other programs (lmdb:PATH?OPTIONS) the
// keys. SOURCE:PATH asks the source of that name among options.operators, which
// then decides what PATH is and what is wrong with it. NotFound: nothing there.
// InvalidArgument: unknown scheme, or a folder without shards; a usage error
// where the scheme is not that of the files, with the URI to write. DataLoss:
// truncated, foreign or damaged; names the file. Unimplemented: a newer format
// version, or this program was built without the format. Each says what to do.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenRecordSource(
    absl::string_view uri, const OpenSourceOptions& options);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_OPEN_H_
