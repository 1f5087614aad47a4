// Checks an LMDB file before its tree is read: looks at the two meta pages and
// compares the file's length with the last page that they name.
//
// Pure function over bytes; does not use the LMDB library.

#ifndef MILLRACE_SERVER_STORAGE_LMDB_LMDB_HEADER_H_
#define MILLRACE_SERVER_STORAGE_LMDB_LMDB_HEADER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/storage/mapped_file.h"

namespace millrace::storage {

// Enough bytes of a file's beginning for ParseLmdbHeader: two pages of the
// largest size.
inline constexpr uint64_t kLmdbHeaderBytes = 2 * 65536;

struct LmdbHeader {
  uint32_t page_size = 0;
  uint64_t pages = 0;        // last page + 1
  uint64_t entries = 0;      // of the main database
  uint64_t root = 0;         // its first page; UINT64_MAX: the tree is empty
  uint64_t transaction = 0;  // number of the last commit
};

// `start` is the beginning of a file of `file_bytes` bytes: kLmdbHeaderBytes
// of it, or all. DataLoss: truncated, foreign or damaged; says which, without
// the file's name.
absl::StatusOr<LmdbHeader> ParseLmdbHeader(absl::Span<const uint8_t> start,
                                           uint64_t file_bytes);

// The same for a file; errors name it.
absl::StatusOr<LmdbHeader> ReadLmdbHeader(const MappedFile& file);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LMDB_LMDB_HEADER_H_
