// FooterCounts are the sizes of an encoded Parquet footer (a FileMetaData in
// Thrift's compact protocol), read from its first bytes: the schema, and the
// number of row groups after it. They give the memory of the parsed footer in
// Arrow, so that a footer that is too large is refused before it is parsed.
//
// Plain numbers; pure functions that believe nothing of what they read.
//
//   const FooterCounts counts = CountFooter(start, footer_bytes)
//                                   .value_or(MaxFooterCounts(footer_bytes));
//   const uint64_t bytes = counts.ParsedBytes(footer_bytes);
//   if (bytes > room) return Refused();
//   if (!(ParsedBytesOf(footer) <= bytes)) return Damaged();

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_FOOTER_COUNTS_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_FOOTER_COUNTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace::storage {

struct FooterCounts {
  uint64_t row_groups = 0;
  uint64_t columns = 0;     // leaves of the schema: chunks of each row group
  uint64_t path_names = 0;  // in the paths to these, together
  uint64_t elements = 0;    // of the schema: its leaves and what they lie in
  uint64_t name_bytes = 0;  // of the names of these
  // Names in the longest path, and the column (its first name) with that path.
  uint64_t max_path_names = 0;
  std::string deepest_column;

  uint64_t chunks() const { return row_groups * columns; }

  // What the parsed footer takes of memory, of `footer_bytes` in the file: an
  // upper bound where its statistics and names take what they have in the file.
  uint64_t ParsedBytes(uint64_t footer_bytes) const;
};

// `start`: the first bytes of a footer of `footer_bytes`, or all of them.
// Absent: it is damaged, or `start` ends before the schema and the head of the
// row groups.
std::optional<FooterCounts> CountFooter(absl::string_view start,
                                        uint64_t footer_bytes);

// Counts for a footer that cannot be parsed: more than any valid footer has.
FooterCounts MaxFooterCounts(uint64_t footer_bytes);

// As FooterCounts::ParsedBytes(), by the lists that are really in the whole
// footer: its row groups may hold more than its schema says. Absent: it is
// damaged.
std::optional<uint64_t> ParsedBytesOf(absl::string_view footer);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_FOOTER_COUNTS_H_
