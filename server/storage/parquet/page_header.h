// PageHeader is what the header in front of a Parquet page (a PageHeader in
// Thrift's compact protocol) says of the page's size.
//
// Plain numbers; a pure function that believes nothing of what it reads.
//
//   const auto header = ParsePageHeader(bytes);
//   if (header) next = at + header->bytes + header->stored;

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_PAGE_HEADER_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_PAGE_HEADER_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace millrace::storage {

struct PageHeader {
  int64_t type = -1;  // PageType of the format
  // Sizes in bytes and the number of values: 0 to 2^31 - 1.
  int64_t encoded = -1;  // once it is decompressed
  int64_t stored = -1;
  int64_t values = 0;
  // Bytes of the levels that a page of version 2 begins with, and whether the
  // rest of the page is marked as compressed. Of another page, all is.
  int64_t levels = 0;
  bool compressed = true;
  int64_t bytes = 0;  // of the header itself; at least 1
};

// Arrow's limits: it parses this many bytes first, and no longer header.
inline constexpr int64_t kUsualPageHeaderBytes = 16 << 10;
inline constexpr int64_t kMaxPageHeaderBytes = 16 << 20;

// Upper bound of what Arrow allocates outside its pool for a header, because of
// the statistics in it: the header's own, those of two pages, and a copy. 0 for
// the usual headers.
constexpr int64_t PageHeaderMemory(int64_t bytes) {
  return bytes > kUsualPageHeaderBytes ? 4 * bytes : 0;
}

// `bytes` begin with a header. Absent: they hold no whole header, or one that
// makes no sense.
std::optional<PageHeader> ParsePageHeader(absl::string_view bytes);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_PAGE_HEADER_H_
