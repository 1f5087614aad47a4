// Serves the arrays of a program that has passed them in a sealed file in
// memory. Samples are views of the program's pages, so the server has no copy.
// It does not receive the file (server/lease/lease_server.h) and names nothing:
// the content alone says which dataset it is.
//
// The source is thread-safe, as RecordSource says, and owns the map.
//
//   MR_ASSIGN_OR_RETURN(auto source, OpenArrays(file.get(), options));

#ifndef MILLRACE_SERVER_STORAGE_MEMORY_ARRAY_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_MEMORY_ARRAY_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"

namespace millrace::storage {

// Maps the file, which may be closed afterwards, and reads all of it once: the
// fingerprint is that of the content, as of a packed dataset. Of `options`, the
// metadata budget pays for the page tables of the map.
// InvalidArgument: no sealed file of arrays, or a class index out of range.
// ResourceExhausted: the budget has no room; says what to do.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenArrays(
    int file, const OpenSourceOptions& options);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_MEMORY_ARRAY_SOURCE_H_
