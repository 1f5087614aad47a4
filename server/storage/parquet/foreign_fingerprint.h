// ForeignFingerprint is the identity of Parquet files of other programs
// (docs/formats.md, "Foreign Parquet", defines it byte by byte): a hash of
// their footers, of all bytes of the small columns and of both ends of each
// column chunk of the others. What opening a dataset reads for it is bounded:
// it does not see every change of a large column.
//
// Pure: the same files have the same fingerprint on every machine, whatever
// the number of threads. Blocks while it reads, on threads of its own. Takes
// kFingerprintThreads * kFingerprintPieceBytes of memory beside the footers.
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
#include "server/storage/parquet/parquet_file.h"
#include "server/storage/parquet/row_group.h"

namespace millrace::storage {

// Columns are read whole, the smallest first, while they have no more bytes
// together, in all files.
inline constexpr int64_t kFingerprintWholeBytes = 256 << 20;
// Of the other columns: at the beginning and at the end of each column chunk.
inline constexpr int64_t kFingerprintEndBytes = 4 << 10;
inline constexpr int64_t kFingerprintPieceBytes = 256 << 10;
// Reads wait for storage more than they compute.
inline constexpr int kFingerprintThreads = 16;

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
