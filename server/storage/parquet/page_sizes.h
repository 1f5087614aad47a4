// PageSizes are the sizes of the largest pages of a column chunk, from the page
// headers. The footer does not contain them.
//
// Plain numbers; every byte is checked before use.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_PAGE_SIZES_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_PAGE_SIZES_H_

#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <arrow/util/type_fwd.h>

#include <cstdint>

#include "server/storage/parquet/chunk_place.h"

namespace millrace::storage {

struct PageSizes {
  // Of the largest data page and of the next one, in bytes: as it is stored,
  // and once it is decompressed. The largest in one need not be it in the
  // other.
  uint64_t stored = 0;
  uint64_t stored_next = 0;
  uint64_t encoded = 0;
  uint64_t encoded_next = 0;
  uint64_t values = 0;  // of the page with `encoded`
  int64_t data_pages = 0;
  int64_t header = 0;  // bytes of the longest header
  int64_t codec = 0;   // bytes that decompressing a page takes, at most
  // Of the dictionary; 0: there is none.
  uint64_t dictionary_stored = 0;
  uint64_t dictionary = 0;
};

// Reads the headers of all pages, compressed with `codec`. Errors as `file` has
// them; Invalid: a header makes no sense.
arrow::Result<PageSizes> ReadPageSizes(arrow::io::RandomAccessFile& file,
                                       const ChunkPlace& place,
                                       arrow::Compression::type codec);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_PAGE_SIZES_H_
