// ForeignFingerprint is the identity of Parquet files of other programs
// (docs/formats.md, "Foreign Parquet", defines it byte by byte): a hash of
// their footers and of their columns (columns/column_fingerprint.h). It does
// not see every change of a large column.
//
// Pure. Blocks while it reads, on threads of its own.
//
//   MR_ASSIGN_OR_RETURN(const std::string fingerprint,
//                       ForeignFingerprint(shards));

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_FOREIGN_FINGERPRINT_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_FOREIGN_FINGERPRINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/columns/column_fingerprint.h"
#include "server/storage/parquet/parquet_file.h"
#include "server/storage/parquet/row_group.h"

namespace millrace::storage {

struct ForeignShard {
  std::shared_ptr<const ParquetFile> file;
  // Of the columns that become fields: the same ones for each file.
  absl::Span<const ColumnPlan> columns;
};

// 32 hexadecimal digits. Errors name the file; Unavailable: it could not be
// read, or has changed meanwhile.
absl::StatusOr<std::string> ForeignFingerprint(
    absl::Span<const ForeignShard> shards,
    int64_t whole_bytes = kFingerprintWholeBytes,
    int threads = kFingerprintThreads);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_FOREIGN_FINGERPRINT_H_
