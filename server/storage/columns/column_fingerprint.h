// HashColumns hashes the columns of table files of other programs, in bounded
// time: all bytes of the small columns, and both ends of each part of the
// others. It knows no format: a file tells where its columns lie.
//
// Pure: the same files have the same hash on every machine, whatever the number
// of threads. Blocks while it reads, on threads of its own. Takes
// kFingerprintThreads * kFingerprintPieceBytes of memory.
//
//   MR_ASSIGN_OR_RETURN(const Hash128 sum, HashColumns(files, columns));

#ifndef MILLRACE_SERVER_STORAGE_COLUMNS_COLUMN_FINGERPRINT_H_
#define MILLRACE_SERVER_STORAGE_COLUMNS_COLUMN_FINGERPRINT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/content_hash.h"

namespace millrace::storage {

// Columns are read whole, the smallest first, while they have no more bytes
// together, in all files.
inline constexpr int64_t kFingerprintWholeBytes = 256 << 20;
// Of the other columns: at the beginning and at the end of each part.
inline constexpr int64_t kFingerprintEndBytes = 4 << 10;
inline constexpr int64_t kFingerprintPieceBytes = 256 << 10;
// Reads wait for storage more than they compute.
inline constexpr int kFingerprintThreads = 16;

struct ColumnBytes {
  int64_t begin = 0;  // in the file
  int64_t bytes = 0;  // ends inside the file
};

// A file whose rows are in groups, each with a part of every column.
struct HashedFile {
  std::string path;
  int64_t groups = 0;
  std::function<absl::StatusOr<ColumnBytes>(int64_t group, size_t column)>
      place;
  // As FileWatch::Read() and CheckUnchanged().
  std::function<absl::StatusOr<uint64_t>(uint64_t offset, absl::Span<uint8_t>)>
      read;
  std::function<absl::Status()> check;
};

// The sum of the hashes of pieces, numbered by file, then group, then column.
// Errors name the file; Unavailable: it could not be read, or has changed.
absl::StatusOr<Hash128> HashColumns(
    absl::Span<const HashedFile> files, size_t columns,
    int64_t whole_bytes = kFingerprintWholeBytes,
    int threads = kFingerprintThreads);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_COLUMNS_COLUMN_FINGERPRINT_H_
