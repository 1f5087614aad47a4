// The leaves of LitData samples, by the names of litdata's serializers
// ("jpeg", "int", "no_header_tensor:17"), and what the server makes of each
// (docs/formats.md).
//
// Nothing is ever unpickled: a leaf of "pickle" is bytes.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_LEAF_H_
#define MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_LEAF_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/chunks/column_choice.h"

namespace millrace::storage {

// A format that is not known is bytes.
ColumnDraft DraftOfLeaf(const std::string& name, bool unnamed,
                        const std::string& format);

// The headers of the formats "tensor" (big-endian) and "numpy"
// (little-endian): u32 type, u32 dimensions, u32 each dimension. See
// ParseArrayHeader.
absl::StatusOr<std::optional<ArrayHeader>> ParseTorchArray(
    absl::Span<const uint8_t> value);
absl::StatusOr<std::optional<ArrayHeader>> ParseNumpyArray(
    absl::Span<const uint8_t> value);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_LEAF_H_
