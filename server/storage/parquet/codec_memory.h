// CodecMemory is the memory that Arrow's codecs allocate to decompress a page,
// in addition to the page's buffers. They call malloc, so Arrow's pool does not
// see this memory. Each codec frees it when the page is decompressed.
//
// Pure.
//
//   pool.Charge(CodecBytes(chunk.compression(), compressed_page.front()));

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_CODEC_MEMORY_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_CODEC_MEMORY_H_

#include <arrow/util/type_fwd.h>

#include <cstdint>

namespace millrace::storage {

// Upper bound for a page whose compressed bytes begin with `first`. Only the
// first byte of a Brotli stream says anything: it has the size of the window.
int64_t CodecBytes(arrow::Compression::type codec, uint8_t first);

// CodecBytes() of any page.
int64_t MaxCodecBytes(arrow::Compression::type codec);

// CodecBytes() of the pages that writers make: all known writers use Brotli's
// default window of 4 MiB.
int64_t UsualCodecBytes(arrow::Compression::type codec);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_CODEC_MEMORY_H_
