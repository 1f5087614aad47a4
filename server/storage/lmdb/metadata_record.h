// The record that makes an LMDB file a shard: ShardMetadata between a magic
// word and a hash (docs/formats.md). Pure functions over bytes.

#ifndef MILLRACE_SERVER_STORAGE_LMDB_METADATA_RECORD_H_
#define MILLRACE_SERVER_STORAGE_LMDB_METADATA_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

// Greater than the key of any row, so it can be appended after them.
inline constexpr absl::string_view kMetadataKey = "millrace-metadata";

std::string EncodeMetadataRecord(const ShardMetadata& metadata);

// DataLoss: damaged. Unimplemented: of a newer format version.
absl::StatusOr<ShardMetadata> DecodeMetadataRecord(
    absl::Span<const uint8_t> record);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LMDB_METADATA_RECORD_H_
