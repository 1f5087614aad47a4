// FooterCounts are the sizes of an encoded Parquet footer (a FileMetaData in
// Thrift's compact protocol), read from its first bytes: the schema, and the
// number of row groups after it. They give the memory of the parsed footer in
// Arrow, so that a footer that is too large is refused before it is parsed.
//
// Plain numbers; pure functions that believe nothing of what they read.
//
//   const auto counts = CountFooter(start, footer_bytes);
//   if (counts && counts->ParsedBytes(footer_bytes) > room) return Refused();

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_FOOTER_COUNTS_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_FOOTER_COUNTS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace millrace {

struct FooterCounts {
  uint64_t row_groups = 0;
  uint64_t columns = 0;     // leaves of the schema: chunks of each row group
  uint64_t path_names = 0;  // in the paths to these, together

  uint64_t chunks() const { return row_groups * columns; }

  // What the parsed footer takes of memory, of `footer_bytes` in the file: an
  // upper bound where its statistics and names take what they have in the file.
  uint64_t ParsedBytes(uint64_t footer_bytes) const;
};

// `start`: the first bytes of a footer of `footer_bytes`, or all of them.
// Absent: it is damaged, or its schema is longer than `start`.
std::optional<FooterCounts> CountFooter(absl::string_view start,
                                        uint64_t footer_bytes);

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_FOOTER_COUNTS_H_
