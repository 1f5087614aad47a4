// The encodings of MDS columns ("jpeg", "int", "ndarray:float32:3,4") and what
// the server makes of each (docs/formats.md).
//
// Nothing is ever unpickled: a column of "pkl" is bytes.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_STORAGE_MDS_MDS_ENCODING_H_
#define MILLRACE_SERVER_STORAGE_MDS_MDS_ENCODING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/chunks/column_choice.h"

namespace millrace::storage {

// `bytes`: column_sizes of index.json, 0 for null. DataLoss: the encoding has
// another size, or is no encoding; names the column.
absl::StatusOr<ColumnDraft> DraftOfMdsColumn(const std::string& name,
                                             const std::string& encoding,
                                             uint64_t bytes);

// The header of an array whose shape is in each value. `stored`: kBytes if its
// type is, too. See ParseArrayHeader.
absl::StatusOr<std::optional<ArrayHeader>> ParseMdsArray(
    StoredType stored, absl::Span<const uint8_t> value);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_MDS_MDS_ENCODING_H_
