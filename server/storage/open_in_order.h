// Opens a dataset for commands that go through it in order (pack, diff, head,
// ...): besides all that a server opens, files whose samples cannot be read at
// random, such as compressed HDF5 files.

#ifndef MILLRACE_SERVER_STORAGE_OPEN_IN_ORDER_H_
#define MILLRACE_SERVER_STORAGE_OPEN_IN_ORDER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

// As OpenRecordSource(). Reads in another order may be slow.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenInOrder(
    absl::string_view uri, const OpenSourceOptions& options);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_OPEN_IN_ORDER_H_
