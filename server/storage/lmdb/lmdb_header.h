// Checks an LMDB file before LMDB maps it. LMDB trusts its files: it reads a
// page that is missing at the end straight from the map and dies of SIGBUS.
// This looks at the two meta pages as plain bytes and compares the file's
// length with the last page that they name.
//
// Pure function over bytes; does not use the LMDB library.

#ifndef MILLRACE_SERVER_STORAGE_LMDB_LMDB_HEADER_H_
#define MILLRACE_SERVER_STORAGE_LMDB_LMDB_HEADER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace {

// Enough bytes of a file's beginning for ParseLmdbHeader: two pages of the
// largest size.
inline constexpr uint64_t kLmdbHeaderBytes = 2 * 65536;

struct LmdbHeader {
  uint32_t page_size = 0;
  uint64_t pages = 0;    // last page + 1
  uint64_t entries = 0;  // of the main database
};

// `start` is the beginning of a file of `file_bytes` bytes: kLmdbHeaderBytes
// of it, or all. DataLoss: truncated, foreign or damaged; says which, without
// the file's name.
absl::StatusOr<LmdbHeader> ParseLmdbHeader(absl::Span<const uint8_t> start,
                                           uint64_t file_bytes);

// The same for a file; errors name it.
absl::StatusOr<LmdbHeader> ReadLmdbHeader(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_LMDB_LMDB_HEADER_H_
